#include "comm/cuda/check.h"
#include "sim/cuda/kernels/cluster_order.h"

namespace specstep::cuda {

namespace {

constexpr unsigned threads = 32;

__global__ void nothing() {}

__global__ void where_am_i(std::int32_t* to) {
  std::uint32_t here = 0;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(here));
  if (threadIdx.x == 0) to[blockIdx.x] = static_cast<std::int32_t>(here);
}

int of_device(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  comm::check(cudaGetDevice(&device), "the current device");
  comm::check(cudaDeviceGetAttribute(&value, attribute, device), "what a device has");
  return value;
}

/// Begins behind the end of what is before: beside blocks that still run, clusters would be dealt out otherwise.
template <class... Arguments>
void launch_pairs(void (*kernel)(Arguments...), int clusters, cudaStream_t stream, Arguments... arguments) {
  cudaLaunchAttribute pair{};
  pair.id = cudaLaunchAttributeClusterDimension;
  pair.val.clusterDim.x = 2;
  pair.val.clusterDim.y = pair.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(2 * clusters));
  config.blockDim = dim3(threads);
  config.stream = stream;
  config.attrs = &pair;
  config.numAttrs = 1;
  comm::check(cudaLaunchKernelEx(&config, kernel, arguments...), "launching clusters");
}

}  // namespace

int pairs_of_multiprocessors() {
  return of_device(cudaDevAttrClusterLaunch) != 0 ? of_device(cudaDevAttrMultiProcessorCount) / 2 : 0;
}

void empty_clusters(int clusters, cudaStream_t stream) {
  if (of_device(cudaDevAttrClusterLaunch) != 0) return launch_pairs(nothing, clusters, stream);
  nothing<<<1, threads, 0, stream>>>();
  comm::check(cudaGetLastError(), "launching a block");
}

void places_of_clusters(std::int32_t* to, cudaStream_t stream) {
  launch_pairs(where_am_i, pairs_of_multiprocessors(), stream, to);
}

}  // namespace specstep::cuda
