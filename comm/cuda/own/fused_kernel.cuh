// Protocols with rows as kernels: a cluster of blocks takes a row at a time.
#pragma once

#include "comm/cuda/check.h"
#include "comm/cuda/own/norm_epilogue.cuh"
#include "comm/protocol/run_rows.h"

namespace specstep::comm {

template <protocol::Protocol P, class Values, int most>
__global__ void __launch_bounds__(most_row_threads)
    fused_kernel(const __grid_constant__ DeviceGroup group, const __grid_constant__ OwnCall sum,
                 const __grid_constant__ RowNorm norm) {
  __shared__ float parts[2 * most_cluster * most_row_warps];
  NormEpilogue<Values, protocol::kept_packs(P, most), true> epilogue(norm, parts);
  DeviceMemory<Values, most> memory(group, sum);
  const auto cluster = static_cast<unsigned>(norm.cluster);
  protocol::RowLane at{memory.lane(), blockIdx.x / cluster, gridDim.x / cluster};
  // Warps in turn over the blocks: what only some of them have work for is shared out, too.
  at.lane.first = (threadIdx.x / 32 * cluster + blockIdx.x % cluster) * 32 + threadIdx.x % 32;
  at.lane.step = cluster * blockDim.x;
  const protocol::Rows rows{norm.rows, norm.row_bytes / static_cast<std::uint32_t>(sizeof(Pack))};
  protocol::run_rows<P>(memory, call_of(group, sum), rows, at, epilogue, memory.usable());
}

/// A launch whose blocks are clusters of the call's size, where that is more than one.
template <class... Parameters, class... Arguments>
void launch_clusters(void (*kernel)(Parameters...), int cluster, const Grid& grid, cudaStream_t stream,
                     const Arguments&... arguments) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid.blocks);
  config.blockDim = dim3(grid.threads);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = cluster > 1 ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "launching an allreduce with a norm");
}

template <protocol::Protocol P>
struct FusedKernel {
  template <class Values, int most>
  struct With {
    static void launch(const DeviceGroup& group, const OwnCall& sum, const RowNorm& norm, const Grid& grid,
                       cudaStream_t stream) {
      launch_clusters(fused_kernel<P, Values, most>, norm.cluster, grid, stream, group, sum, norm);
    }
  };
};

/// Puts one call on the stream.
template <protocol::Protocol P>
void launch_fused(const DeviceGroup& group, const OwnCall& sum, const RowNorm& norm, const Grid& grid,
                  cudaStream_t stream) {
  for_values_and_ranks<FusedKernel<P>::template With>(sum.dtype, group.capacity.ranks, group, sum, norm, grid, stream);
}

/// What an OwnKind tells of its fused kernel.
template <protocol::Protocol P>
constexpr FusedKind fused_kind() {
  return {launch_fused<P>, protocol::shares_of(P), protocol::by_places(P)};
}

}  // namespace specstep::comm
