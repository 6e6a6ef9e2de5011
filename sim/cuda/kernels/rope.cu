// Rotation by position, in place, and the row that it appends to the paged cache. A block for each token.
#include "comm/cuda/check.h"
#include "model/base/error.h"
#include "sim/cuda/kernels/attention.h"
#include "sim/cuda/kernels/attention_device.cuh"
#include "sim/cuda/kernels/early.cuh"

namespace specstep::cuda {

namespace {

constexpr int threads = 256;

__global__ void __launch_bounds__(threads) rotation_table(float2* table, std::int64_t pairs, std::int64_t half) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= pairs) return;
  const double power = pow(10000.0, -static_cast<double>(i % half) / static_cast<double>(half));
  const double angle = static_cast<double>(i / half) * power;
  table[i] = make_float2(static_cast<float>(cos(angle)), static_cast<float>(sin(angle)));
}

/// A stretch of V values that one thread moves.
template <typename T, int V>
struct alignas(sizeof(T) * V) Pack {
  T at[V];
};

/// Where the token's row lies in the cache.
struct CacheRow {
  void* rows;
  std::int32_t bytes;
  std::int64_t first;
};
__device__ CacheRow cache_row(void* rows, std::int32_t bytes, std::int64_t values, const PassMeta& meta,
                              std::int64_t token) {
  const auto sequence = static_cast<std::int32_t>(token / meta.tokens_each);
  return {rows, bytes, row_of_slot(meta, sequence, meta.slots[token]) * values};
}

template <typename T, int V>
__device__ void append(const CacheRow& row, std::int64_t col, const Pack<T, V>& values) {
  if (row.bytes == static_cast<std::int32_t>(sizeof(T))) {
    *reinterpret_cast<Pack<T, V>*>(static_cast<T*>(row.rows) + row.first + col) = values;
    return;
  }
#pragma unroll
  for (int v = 0; v < V; ++v) put_cached(row.rows, row.bytes, row.first + col + v, to_float(values.at[v]));
}

/// Rotates the pairs (i + v, i + v + half) in place; gives both stretches.
template <typename T, int V>
__device__ void rotate(T* at, std::int32_t half, const float2* rotations, Pack<T, V>& x, Pack<T, V>& y) {
  x = *reinterpret_cast<const Pack<T, V>*>(at);
  y = *reinterpret_cast<const Pack<T, V>*>(at + half);
#pragma unroll
  for (int v = 0; v < V; ++v) {
    const float2 r = rotations[v];
    const float a = to_float(x.at[v]);
    const float b = to_float(y.at[v]);
    x.at[v] = from_float<T>(a * r.x - b * r.y);
    y.at[v] = from_float<T>(a * r.y + b * r.x);
  }
  *reinterpret_cast<Pack<T, V>*>(at) = x;
  *reinterpret_cast<Pack<T, V>*>(at + half) = y;
}

/// Sizes of a rotation as the kernels count: 32 bits.
struct Sizes {
  std::int32_t heads = 0, kv_heads = 0, head_dim = 0;
  std::int32_t nope_dim = 0, rope_dim = 0, q_rank = 0, kv_rank = 0;
  std::int32_t cache_bytes = 2;
};

template <typename T, int V>
__global__ void __launch_bounds__(threads)
    append_gqa(T* qkv, Sizes s, void* cache, PassMeta meta, const float2* rotations) {
  const auto token = static_cast<std::int64_t>(blockIdx.x);
  const std::int32_t half = s.head_dim / 2;
  const std::int32_t each = half / V;
  const std::int32_t rotated = (s.heads + s.kv_heads) * each;
  const std::int32_t copied = s.kv_heads * s.head_dim / V;
  T* row = qkv + token * (s.heads + 2 * s.kv_heads) * s.head_dim;
  const CacheRow to = cache_row(cache, s.cache_bytes, 2LL * s.kv_heads * s.head_dim, meta, token);
  const float2* turn = rotations + static_cast<std::int64_t>(meta.positions[token]) * half;
  wait_for_predecessor();
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < rotated + copied; i += threads) {
    if (i >= rotated) {
      const std::int32_t col = (i - rotated) * V;
      const T* value = row + (s.heads + s.kv_heads) * s.head_dim + col;
      append<T, V>(to, static_cast<std::int64_t>(s.kv_heads) * s.head_dim + col,
                   *reinterpret_cast<const Pack<T, V>*>(value));
      continue;
    }
    const std::int32_t head = i / each;
    const std::int32_t col = i % each * V;
    Pack<T, V> x, y;
    rotate<T, V>(row + head * s.head_dim + col, half, turn + col, x, y);
    if (head < s.heads) continue;
    append<T, V>(to, (head - s.heads) * s.head_dim + col, x);
    append<T, V>(to, (head - s.heads) * s.head_dim + col + half, y);
  }
}

template <typename T, int V>
__global__ void __launch_bounds__(threads)
    append_mla(T* query, T* latent, Sizes s, void* cache, PassMeta meta, const float2* rotations) {
  const auto token = static_cast<std::int64_t>(blockIdx.x);
  const std::int32_t half = s.rope_dim / 2;
  const std::int32_t each = half / V;
  const std::int32_t rotated = (s.heads + 1) * each;  // the shared rotated part of the key last
  const std::int32_t width = s.nope_dim + s.rope_dim;
  T* row = query + token * s.heads * width;
  T* key = latent + token * (s.q_rank + s.kv_rank + s.rope_dim) + s.q_rank;
  const CacheRow to = cache_row(cache, s.cache_bytes, s.kv_rank + s.rope_dim, meta, token);
  const float2* turn = rotations + static_cast<std::int64_t>(meta.positions[token]) * half;
  wait_for_predecessor();
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < rotated + s.kv_rank / V; i += threads) {
    if (i >= rotated) {
      const std::int32_t col = (i - rotated) * V;
      append<T, V>(to, col, *reinterpret_cast<const Pack<T, V>*>(key + col));
      continue;
    }
    const std::int32_t head = i / each;
    const std::int32_t col = i % each * V;
    Pack<T, V> x, y;
    rotate<T, V>((head < s.heads ? row + head * width + s.nope_dim : key + s.kv_rank) + col, half, turn + col, x, y);
    if (head < s.heads) continue;
    append<T, V>(to, s.kv_rank + col, x);
    append<T, V>(to, s.kv_rank + col + half, y);
  }
}

std::int32_t value_bytes(const Cache& cache) {
  switch (cache.dtype) {
    case DType::fp8:
      return 1;
    case DType::bf16:
      return 2;
    case DType::f32:
      return 4;
    default:
      throw Error("rope: a cache holds f32, bf16 or fp8");
  }
}

/// Are all of these multiples of four values, as the wide kernels need?
template <typename... Numbers>
bool in_fours(Numbers... n) {
  return ((n % 4 == 0) && ...);
}

dim3 blocks_of(const PassMeta& meta) { return dim3(static_cast<unsigned>(meta.count())); }

template <typename T, int V>
void launch(const RopeGqa& call, const Cache& cache, const PassMeta& meta, const float2* rotations,
            cudaStream_t stream) {
  Sizes s;
  s.heads = static_cast<std::int32_t>(call.heads);
  s.kv_heads = static_cast<std::int32_t>(call.kv_heads);
  s.head_dim = static_cast<std::int32_t>(call.head_dim);
  s.cache_bytes = value_bytes(cache);
  launch_early(append_gqa<T, V>, {blocks_of(meta), threads, 0, stream}, static_cast<T*>(call.qkv), s, cache.rows, meta,
               rotations);
}

template <typename T, int V>
void launch(const RopeMla& call, const Cache& cache, const PassMeta& meta, const float2* rotations,
            cudaStream_t stream) {
  Sizes s;
  s.heads = static_cast<std::int32_t>(call.heads);
  s.nope_dim = static_cast<std::int32_t>(call.nope_dim);
  s.rope_dim = static_cast<std::int32_t>(call.rope_dim);
  s.q_rank = static_cast<std::int32_t>(call.q_rank);
  s.kv_rank = static_cast<std::int32_t>(call.kv_rank);
  s.cache_bytes = value_bytes(cache);
  launch_early(append_mla<T, V>, {blocks_of(meta), threads, 0, stream}, static_cast<T*>(call.query),
               static_cast<T*>(call.latent), s, cache.rows, meta, rotations);
}

template <typename Call>
void launch_any(const Call& call, const Cache& cache, const PassMeta& meta, const float2* rotations, Real real,
                bool wide, cudaStream_t stream) {
  if (meta.count() == 0) return;
  using bf16 = __nv_bfloat16;
  if (real == Real::f32)
    wide ? launch<float, 4>(call, cache, meta, rotations, stream)
         : launch<float, 1>(call, cache, meta, rotations, stream);
  else
    wide ? launch<bf16, 4>(call, cache, meta, rotations, stream)
         : launch<bf16, 1>(call, cache, meta, rotations, stream);
}

}  // namespace

void fill_rotations(float2* table, std::int64_t positions, std::int64_t width, cudaStream_t stream) {
  const std::int64_t half = width / 2;
  const std::int64_t pairs = positions * half;
  if (pairs == 0) return;
  rotation_table<<<static_cast<unsigned>((pairs + threads - 1) / threads), threads, 0, stream>>>(table, pairs, half);
  comm::check(cudaGetLastError(), "rotation table: launch");
}

void rope_append(const RopeGqa& call, const Cache& cache, const PassMeta& meta, const float2* rotations, Real real,
                 cudaStream_t stream) {
  if (cache.values != 2 * call.kv_heads * call.head_dim) throw Error("rope: the cache's rows are not keys and values");
  launch_any(call, cache, meta, rotations, real, in_fours(call.head_dim / 2), stream);
}

void rope_append(const RopeMla& call, const Cache& cache, const PassMeta& meta, const float2* rotations, Real real,
                 cudaStream_t stream) {
  if (cache.values != call.kv_rank + call.rope_dim)
    throw Error("rope: the cache's rows are not latent and rotated part");
  const bool wide = in_fours(call.rope_dim / 2, call.nope_dim, call.q_rank, call.kv_rank);
  launch_any(call, cache, meta, rotations, real, wide, stream);
}

}  // namespace specstep::cuda
