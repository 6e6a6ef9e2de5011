// What attention on tensor cores (bf16) shares: copies that run behind the back of the threads, fragments, products.
#pragma once

#include "sim/cuda/kernels/attention_join.cuh"
#include "sim/cuda/kernels/attention_launch.h"

namespace specstep::cuda {

using bf16 = __nv_bfloat16;

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}
/// Copies 16 bytes to shared memory behind the back of the threads; zeros where `valid` is false.
__device__ inline void copy_async(void* to, const void* from, bool valid) {
  const int size = valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(shared_address(to)), "l"(from), "r"(size)
               : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
template <int Pending>
__device__ void await_copies() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(Pending) : "memory");
}
__device__ inline void load_matrices(std::uint32_t (&r)[4], const void* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(at))
               : "memory");
}
__device__ inline void load_transposed(std::uint32_t (&r)[4], const void* at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(at))
               : "memory");
}
/// c[16, 8] += a[16, 16] b[16, 8].
__device__ inline void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};\n"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline float exp2_fast(float v) {
  float out = 0;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(v));
  return out;
}

/// Eight values of fp8 as bf16.
__device__ inline uint4 widened(uint2 raw) {
  alignas(16) __nv_bfloat162 wide[4];
  const std::uint32_t words[2] = {raw.x, raw.y};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto pair = static_cast<__nv_fp8x2_storage_t>(words[i / 2] >> (i % 2 * 16));
    const __half2 halves = __half2(__nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3));
    wide[i] = __float22bfloat162_rn(__half22float2(halves));
  }
  return *reinterpret_cast<const uint4*>(wide);
}

/// Page of an entry of a unit's sequence; 0 where nobody asks, or where the places are selected.
__device__ inline std::int32_t cache_page(const AttendParams& p, const Unit& u, std::int32_t entry, bool asked) {
  if (!asked || p.selected) return 0;
  return p.meta.pages[u.sequence * p.meta.pages_each + entry / static_cast<std::int32_t>(page_tokens)];
}

// What few steps or few models need stands in functions of its own: inlined, it would spread the loops over more code
// than the instruction cache of a multiprocessor holds.

/// Row of the cache of a selected entry; -1 for none.
__device__ inline __noinline__ std::int64_t selected_row(const AttendParams& p, std::int32_t sequence,
                                                         std::int64_t token, std::int32_t entry) {
  const std::int32_t slot = slot_of_place(p.meta, sequence, token, p.selected[token * p.limit + entry]);
  return slot < 0 ? -1 : row_of_slot(p.meta, sequence, slot);
}
/// Where the cache keeps an entry of a unit, in rows of the cache; -1 for none. `page`: its cache_page().
__device__ inline std::int64_t cache_row(const AttendParams& p, const Unit& u, Stretch all, std::int32_t entry,
                                         std::int32_t page) {
  if (entry < all.begin || entry >= all.end) return -1;
  if (!p.selected) return page * page_tokens + entry % page_tokens;
  return selected_row(p, u.sequence, u.sequence * p.meta.tokens_each + u.first_query, entry);
}

/// The lowest n bits, for n up to 32.
__device__ inline std::uint32_t low_bits(std::int32_t n) { return n >= 32 ? ~0U : (1U << max(n, 0)) - 1; }

/// Bit i: does the row see entry first + i? For `count` up to 32 of them. As sees(), all at once.
__device__ inline __noinline__ std::uint32_t seen_bits(const AttendParams& p, std::int64_t token, std::int32_t base,
                                                       Stretch seen, std::int32_t first, std::int32_t count) {
  std::uint32_t bits = low_bits(min(seen.end - first, count)) & ~low_bits(min(seen.begin - first, 32));
  if (p.selected) {
    for (std::int32_t i = 0; i < count; ++i)
      if ((bits >> i & 1) != 0 && p.selected[token * p.limit + first + i] < 0) bits &= ~(1U << i);
  } else if (p.meta.mask && first + count > base) {
    const std::int32_t old = max(base - first, 0);  // committed entries before the first that the mask knows
    const std::int32_t bit = first + old - base;
    const std::uint32_t* words = p.meta.mask + token * p.meta.mask_words;
    const std::int32_t word = bit / 32;
    const std::uint32_t low = word < p.meta.mask_words ? words[word] : 0;
    const std::uint32_t high = word + 1 < p.meta.mask_words ? words[word + 1] : 0;
    bits &= __funnelshift_r(low, high, bit % 32) << old | low_bits(old);
  }
  return bits;
}

/// Values of a row of the cache into shared memory, `Chunks` times eight of them, 64 apart; zeros for row -1.
template <int Chunks>
__device__ void copy_wide(bf16* to, const AttendParams& p, std::int64_t row, std::int32_t col) {
  const bf16* from = static_cast<const bf16*>(p.cache) + (row < 0 ? 0 : row * p.cache_values + col);
#pragma unroll
  for (int i = 0; i < Chunks; ++i) copy_async(to + i * 64, from + i * 64, row >= 0);
}
template <int Chunks>
__device__ __noinline__ void copy_narrow(bf16* to, const AttendParams& p, std::int64_t row, std::int32_t col) {
  const char* from = static_cast<const char*>(p.cache) + (row < 0 ? 0 : row * p.cache_values + col);
  uint2 raw[Chunks];
#pragma unroll
  for (int i = 0; i < Chunks; ++i) raw[i] = row < 0 ? make_uint2(0, 0) : *reinterpret_cast<const uint2*>(from + i * 64);
#pragma unroll
  for (int i = 0; i < Chunks; ++i) *reinterpret_cast<uint4*>(to + i * 64) = widened(raw[i]);
}

/// Values [col, col + 8) of the query of a unit's row.
__device__ inline const bf16* query_values(const AttendParams& p, const Unit& u, std::int32_t row, std::int32_t col) {
  const std::int64_t token = u.sequence * p.meta.tokens_each + u.query(row);
  const std::int32_t head = u.head(row);
  if (p.mla && col >= p.value_dim)
    return static_cast<const bf16*>(p.rotated) + token * p.rotated_stride + head * (p.nope_dim + p.rope_dim) +
           p.nope_dim + col - p.value_dim;
  return static_cast<const bf16*>(p.query) + token * p.query_stride + head * p.value_dim + col;
}
/// Starts the copy of a unit's queries, side by side in shared memory; zeros behind the last row.
template <int Rows, int Dim, int Stride, int Threads>
__device__ void copy_query(const AttendParams& p, const Unit& u, bf16* to) {
  constexpr int chunks = Dim / 8;
  for (int i = static_cast<int>(threadIdx.x); i < Rows * chunks; i += Threads) {
    const int row = i / chunks;
    const int col = i % chunks * 8;
    copy_async(to + row * Stride + col, query_values(p, u, min(row, u.rows - 1), col), row < u.rows);
  }
}

}  // namespace specstep::cuda
