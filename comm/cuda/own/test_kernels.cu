#include "comm/cuda/check.h"
#include "comm/cuda/own/test_kernels.h"

namespace specstep::comm {

namespace {

__global__ void difference_kernel(const std::uint8_t* got, const std::uint8_t* expected, std::size_t bytes,
                                  unsigned* wrong) {
  unsigned mine = 0;
  for (std::size_t i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x; i < bytes;
       i += std::size_t{gridDim.x} * blockDim.x)
    mine += got[i] != expected[i];
  if (mine > 0) atomicAdd(wrong, mine);
}

__global__ void pause_kernel(std::uint64_t nanoseconds) {
  std::uint64_t start, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  for (int looks = 0; looks < (1 << 24); ++looks) {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    if (now - start >= nanoseconds) return;
  }
}

}  // namespace

void count_differences(const void* got, const void* expected, std::size_t bytes, unsigned* wrong, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(bytes / 4096 < 8 ? bytes / 4096 + 1 : 8);
  difference_kernel<<<blocks, 256, 0, stream>>>(static_cast<const std::uint8_t*>(got),
                                                static_cast<const std::uint8_t*>(expected), bytes, wrong);
  check(cudaGetLastError(), "comparing");
}

void launch_pause(std::uint64_t nanoseconds, cudaStream_t stream) {
  pause_kernel<<<1, 1, 0, stream>>>(nanoseconds);
  check(cudaGetLastError(), "pausing");
}

}  // namespace specstep::comm
