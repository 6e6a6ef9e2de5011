#include "comm/cuda/check.h"
#include "sim/cuda/stamp.h"

namespace specstep::cuda {

namespace {

constexpr std::uint64_t patience_ns = 1000000000;

__device__ std::uint64_t clock_now() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void stamp_kernel(std::uint64_t* to) { *to = clock_now(); }

/// Waits until the other end has reached a round. Reads past the caches: the host's memory is written by another
/// device.
__device__ bool reached(const volatile std::uint32_t* flag, std::uint32_t round) {
  const std::uint64_t start = clock_now();
  while (*flag < round)
    if (clock_now() - start > patience_ns) return false;
  return true;
}

__global__ void ask_kernel(PingPong* shared) {
  std::uint64_t least = ~std::uint64_t{0};
  for (int i = 0; i < 16; ++i) {
    const std::uint64_t before = clock_now();
    std::uint64_t after = clock_now();
    for (int look = 0; look < 1000000 && after == before; ++look) after = clock_now();
    if (after > before && after - before < least) least = after - before;
  }
  shared->least_tick = least;
  for (int i = 0; i < PingPong::rounds; ++i) {
    shared->sent[i] = clock_now();
    __threadfence_system();
    *const_cast<volatile std::uint32_t*>(&shared->ping) = static_cast<std::uint32_t>(i + 1);
    if (!reached(&shared->pong, static_cast<std::uint32_t>(i + 1))) return;
    shared->returned[i] = clock_now();
  }
}

__global__ void answer_kernel(PingPong* shared) {
  for (int i = 0; i < PingPong::rounds; ++i) {
    if (!reached(&shared->ping, static_cast<std::uint32_t>(i + 1))) return;
    shared->answered[i] = clock_now();
    __threadfence_system();
    *const_cast<volatile std::uint32_t*>(&shared->pong) = static_cast<std::uint32_t>(i + 1);
  }
}

}  // namespace

void stamp(std::uint64_t* to, cudaStream_t stream) {
  stamp_kernel<<<1, 1, 0, stream>>>(to);
  comm::check(cudaGetLastError(), "launching a stamp");
}

void ask(PingPong* shared, cudaStream_t stream) {
  ask_kernel<<<1, 1, 0, stream>>>(shared);
  comm::check(cudaGetLastError(), "asking for a clock");
}

void answer(PingPong* shared, cudaStream_t stream) {
  answer_kernel<<<1, 1, 0, stream>>>(shared);
  comm::check(cudaGetLastError(), "answering with a clock");
}

}  // namespace specstep::cuda
