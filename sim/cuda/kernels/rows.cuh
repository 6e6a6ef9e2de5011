// What kernels over rows of values share: packs of values that move at once, sums over a block, launches.
#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>

#include "comm/cuda/check.h"
#include "sim/cuda/kernels/stored.h"

namespace specstep::cuda {

using bf16 = __nv_bfloat16;
inline constexpr unsigned all_lanes = 0xFFFFFFFFU;

__device__ inline float to_float(float value) { return value; }
__device__ inline float to_float(bf16 value) { return __bfloat162float(value); }
template <class T>
__device__ inline T from_float(float value) {
  if constexpr (sizeof(T) == 2)
    return __float2bfloat16_rn(value);
  else
    return value;
}

/// N values that are loaded and stored together: in pieces of 16 bytes where they are as large.
template <class T, int N>
struct alignas(N * sizeof(T) < 16 ? N * sizeof(T) : 16) Pack {
  T at[N];
};
template <class T, int N>
__device__ inline Pack<T, N> load(const T* from) {
  return *reinterpret_cast<const Pack<T, N>*>(from);
}
template <class T, int N>
__device__ inline void store(T* to, const Pack<T, N>& pack) {
  *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

/// Values of 16 bytes.
template <class T>
inline constexpr int full_pack = 16 / sizeof(T);

/// Sum over the block, the same in all threads, in an order that only the number of threads decides. `shared`: 32
/// values that nothing else uses until the block's next barrier.
__device__ inline float block_sum(float value, float* shared) {
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(all_lanes, value, step);
  const unsigned warps = (blockDim.x + 31) / 32;
  if (warps == 1) return value;
  const unsigned lane = threadIdx.x % 32;
  if (lane == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  value = lane < warps ? shared[lane] : 0.0F;
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(all_lanes, value, step);
  return value;
}

/// Whether packs of N values of `bytes` fit all these widths and strides (in values), and all these places.
inline bool packs_fit(std::int64_t n, std::int64_t bytes, std::initializer_list<std::int64_t> counts,
                      std::initializer_list<const void*> places) {
  const auto whole = [&](std::int64_t count) { return count % n == 0; };
  const auto aligned = [&](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; };
  return n * bytes % 16 == 0 && std::all_of(counts.begin(), counts.end(), whole) &&
         std::all_of(places.begin(), places.end(), aligned);
}

/// Threads of a block, whole warps, for `work` things.
inline unsigned threads_for(std::int64_t work, std::int64_t most) {
  return static_cast<unsigned>(std::clamp<std::int64_t>((work + 31) / 32 * 32, 32, most));
}
inline unsigned blocks_for(std::int64_t work, std::int64_t each) {
  return static_cast<unsigned>((work + each - 1) / each);
}

/// Calls f with a value of the type of activations.
template <class F>
void with_real(Real real, F&& f) {
  if (real == Real::f32)
    f(float{});
  else
    f(bf16{});
}

}  // namespace specstep::cuda
