// Waits on the device.
#include "comm/cuda/check.h"
#include "comm/cuda/delay.h"

namespace specstep::comm {

namespace {

constexpr unsigned threads = 256;
constexpr std::size_t bytes_of_block = 32 * 1024;
constexpr std::size_t most_blocks = 64;

__device__ std::uint64_t global_nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ std::uint64_t read(Ticker ticker) {
  return ticker == Ticker::globaltimer ? global_nanoseconds() : static_cast<std::uint64_t>(clock64());
}

/// Values have two bytes or four, so the bytes are even. Packs of 16 where both ends allow it.
__device__ void copy_part(const void* from, void* to, std::size_t bytes) {
  const std::size_t first = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  const std::size_t stride = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  const bool aligned = (reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to)) % 16 == 0;
  const std::size_t packs = aligned ? bytes / 16 : 0;
  for (std::size_t i = first; i < packs; i += stride) static_cast<uint4*>(to)[i] = static_cast<const uint4*>(from)[i];
  for (std::size_t i = packs * 8 + first; i < bytes / 2; i += stride)
    static_cast<std::uint16_t*>(to)[i] = static_cast<const std::uint16_t*>(from)[i];
}

__global__ void wait_kernel(Ticker ticker, std::uint64_t ticks, const void* from, void* to, std::size_t bytes) {
  const std::uint64_t start = read(ticker);
  copy_part(from, to, bytes);
  if (threadIdx.x != 0) return;
  // A look takes more than one tick of either clock, so this many looks outlast every wait.
  const std::uint64_t most_looks = 64 + 4 * ticks;
  for (std::uint64_t looks = 0; looks < most_looks; ++looks)
    if (read(ticker) - start >= ticks) return;
}

__global__ void watch_kernel(std::uint64_t nanoseconds, TickerReading* reading) {
  constexpr std::uint64_t most_looks = std::uint64_t{1} << 24;
  std::uint64_t last = global_nanoseconds();
  for (std::uint64_t looks = 0; looks < most_looks && global_nanoseconds() == last; ++looks) {
  }
  const std::uint64_t start = global_nanoseconds();
  const auto start_cycles = static_cast<std::uint64_t>(clock64());
  std::uint64_t least = ~std::uint64_t{0};
  last = start;
  for (std::uint64_t looks = 0; looks < most_looks && last - start < nanoseconds; ++looks) {
    const std::uint64_t now = global_nanoseconds();
    if (now == last) continue;
    least = min(least, now - last);
    last = now;
  }
  *reading = {least, last - start, static_cast<std::uint64_t>(clock64()) - start_cycles};
}

}  // namespace

void launch_wait(Ticker ticker, std::uint64_t ticks, const OwnCopy& copy, cudaStream_t stream) {
  const std::size_t blocks = (copy.bytes + bytes_of_block - 1) / bytes_of_block;
  const auto grid = static_cast<unsigned>(blocks < 1 ? 1 : blocks > most_blocks ? most_blocks : blocks);
  wait_kernel<<<grid, threads, 0, stream>>>(ticker, ticks, copy.from, copy.to, copy.bytes);
  check(cudaGetLastError(), "launching a wait");
}

void launch_watch(std::uint64_t nanoseconds, TickerReading* reading, cudaStream_t stream) {
  watch_kernel<<<1, 1, 0, stream>>>(nanoseconds, reading);
  check(cudaGetLastError(), "launching a watch of the clock");
}

}  // namespace specstep::comm
