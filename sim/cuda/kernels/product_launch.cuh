// Launches of products, which may come before the kernels that they wait for end.
#pragma once

#include <algorithm>

#include "model/base/error.h"
#include "sim/cuda/kernels/early.cuh"
#include "sim/cuda/kernels/product_work.cuh"
#include "sim/cuda/kernels/shared_memory.h"

namespace specstep::cuda {

struct PersistentLaunch {
  int threads = 0;
  int shared_bytes = 0;
  cudaStream_t stream = nullptr;
  std::int64_t items = 0;  // at most so many blocks have something to do
};

/// Shared memory that a block may take.
inline int shared_room() {
  int device = 0, most = 0;
  comm::check(cudaGetDevice(&device), "product");
  comm::check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "product");
  return most;
}

/// As many blocks as the device holds at once, at most one an item. How many items there are is known on the device.
/// The kernel calls wait_for_predecessor before it reads or writes anything: blocks may start before.
template <class... More>
void launch_persistent(void (*kernel)(ProductJob, More...), const ProductJob& job, const PersistentLaunch& how,
                       const More&... more) {
  using comm::check;
  int device = 0, processors = 0, blocks = 0;
  check(cudaGetDevice(&device), "product");
  check(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device), "product");
  allow_shared_memory(kernel, how.shared_bytes, "product");
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared),
        "product");
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, how.threads,
                                                      static_cast<std::size_t>(how.shared_bytes)),
        "product");
  if (how.items > 0x7FFFFFFF) throw Error("product: more rows of tiles than a launch can count");
  const std::int64_t at_once = std::max<std::int64_t>(std::int64_t{processors} * blocks, 1);
  const auto grid = static_cast<unsigned>(std::clamp<std::int64_t>(how.items, 1, at_once));
  launch_early(kernel, {grid, static_cast<unsigned>(how.threads), how.shared_bytes, how.stream}, job, more...);
}

}  // namespace specstep::cuda
