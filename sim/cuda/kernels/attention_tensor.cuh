// Attention on tensor cores, bf16: 16, 32 or 64 rows (queries and the query heads of one key/value head) against tiles
// of a paged cache that flow through shared memory.
#pragma once

#include "sim/cuda/kernels/attention_device.cuh"

namespace specstep::cuda {

using bf16 = __nv_bfloat16;

/// Shapes of one instance. ValuesInKeys: a value is the first part of its key (mla). Rows of shared memory are padded
/// by 16 bytes, which keeps ldmatrix free of bank conflicts.
template <int KeyDim, int ValueDim, bool ValuesInKeys, int RowTiles>
struct TensorShape {
  static constexpr int key_dim = KeyDim, value_dim = ValueDim, row_tiles = RowTiles;
  static constexpr bool values_in_keys = ValuesInKeys;
  static constexpr int threads = 256, warps = threads / 32;
  static constexpr int rows = 16 * RowTiles;
  static constexpr int tokens = ValuesInKeys ? 32 : 64;  // of a tile; divides a page
  static constexpr int stages = ValuesInKeys && RowTiles > 1 ? 3 : 2;
  static constexpr int key_stride = KeyDim + 8, value_stride = ValueDim + 8;
  static constexpr int key_tile = tokens * key_stride;
  static constexpr int stage = key_tile + (ValuesInKeys ? 0 : tokens * value_stride);  // values
  static constexpr int column_tiles = tokens / 8;
  static constexpr int splits = warps / column_tiles;  // of the sum over key_dim
  static constexpr int score_stride = tokens + 8;
  static constexpr int columns = ValueDim / warps;  // of the output, of a warp
  static constexpr int lanes_each = tokens / 32;
  static constexpr int rows_each = rows / warps;
  static constexpr int blocks_each = RowTiles == 1 || (RowTiles == 2 && !ValuesInKeys) ? 2 : 1;  // of a multiprocessor
  static constexpr int query_bytes = rows * key_stride * 2;
  static constexpr int score_bytes = splits * rows * score_stride * 4;
  static constexpr int weight_bytes = rows * score_stride * 2;
  static constexpr int bytes = stages * stage * 2 + query_bytes + score_bytes + weight_bytes;
  static constexpr int whole_bytes = bytes + rows * 24 + 64;  // with the arrays of fixed size
  static_assert(KeyDim % (32 * splits) == 0 && columns % 8 == 0 && splits >= 1);
  static_assert(parts_joined_inside * 4 * rows <= score_bytes);
};

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

/// Sixteen bytes of a cache as shared memory takes them: eight fp8 values become eight of bf16.
__device__ inline void widen(bf16* to, const void* from, bool valid) {
  uint2 raw = make_uint2(0, 0);
  if (valid) raw = *static_cast<const uint2*>(from);
  alignas(16) __nv_bfloat162 wide[4];
  const std::uint32_t words[2] = {raw.x, raw.y};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const auto pair = static_cast<__nv_fp8x2_storage_t>(words[i / 2] >> (i % 2 * 16));
    const __half2 halves = __half2(__nv_cvt_fp8x2_to_halfraw2(pair, __NV_E4M3));
    wide[i] = __float22bfloat162_rn(__half22float2(halves));
  }
  *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(wide);
}

/// Shared memory of a block, and what each of its rows is.
template <typename S>
struct TensorBlock {
  bf16* tiles;     // [stages][tokens][key_stride], then values
  bf16* query;     // [rows][key_stride]
  float* scores;   // [splits][rows][score_stride]
  bf16* weights;   // [rows][score_stride]
  Stretch* seen;   // [rows]
  float* rescale;  // [rows]
  Unit unit;
  std::int32_t base;
  Stretch all;
};

/// The rows' queries, side by side; zeros behind the last row.
template <typename S>
__device__ void load_query(const AttendParams& p, const TensorBlock<S>& b) {
  constexpr int chunks = S::key_dim / 8;
  for (int i = static_cast<int>(threadIdx.x); i < S::rows * chunks; i += S::threads) {
    const int row = i / chunks;
    const int col = i % chunks * 8;
    uint4 v = make_uint4(0, 0, 0, 0);
    if (row < b.unit.rows) {
      const std::int64_t token = b.unit.sequence * p.meta.tokens_each + b.unit.query(row);
      const std::int32_t head = b.unit.head(row);
      const bf16* from = S::values_in_keys && col >= S::value_dim
                             ? static_cast<const bf16*>(p.rotated) + token * p.rotated_stride +
                                   head * (p.nope_dim + p.rope_dim) + p.nope_dim + col - S::value_dim
                             : static_cast<const bf16*>(p.query) + token * p.query_stride +
                                   head * (S::values_in_keys ? S::value_dim : S::key_dim) + col;
      v = *reinterpret_cast<const uint4*>(from);
    }
    *reinterpret_cast<uint4*>(b.query + row * S::key_stride + col) = v;
  }
}

/// Starts the copy of tile `tile` of the cache. `page`: page of the tile, read one tile ahead.
template <typename S>
__device__ void load_tile(const AttendParams& p, const TensorBlock<S>& b, int tile, int stage, std::int32_t page) {
  constexpr int key_chunks = S::key_dim / 8;
  constexpr int value_chunks = S::values_in_keys ? 0 : S::value_dim / 8;
  constexpr int chunks = key_chunks + value_chunks;
  bf16* keys = b.tiles + stage * S::stage;
  const char* cache = static_cast<const char*>(p.cache);
  const std::int64_t token = b.unit.sequence * p.meta.tokens_each + b.unit.first_query;
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < S::tokens * chunks; i += S::threads) {
    const int in_tile = i / chunks;
    const int chunk = i % chunks;
    const int entry = tile * S::tokens + in_tile;
    bool valid = entry >= b.all.begin && entry < b.all.end;
    std::int64_t row = 0;
    if (p.selected) {
      const std::int32_t place = valid ? p.selected[token * p.limit + entry] : -1;
      const std::int32_t slot = slot_of_place(p.meta, b.unit.sequence, token, place);
      valid = slot >= 0;
      if (valid) row = row_of_slot(p.meta, b.unit.sequence, slot);
    } else {
      row = page * page_tokens + entry % static_cast<int>(page_tokens);
    }
    const bool value = chunk >= key_chunks;
    const int col = value ? p.value_col + b.unit.kv_head * S::value_dim + (chunk - key_chunks) * 8
                          : b.unit.kv_head * S::key_dim + chunk * 8;
    bf16* to = value ? keys + S::key_tile + in_tile * S::value_stride + (chunk - key_chunks) * 8
                     : keys + in_tile * S::key_stride + chunk * 8;
    const char* from = cache + (row * p.cache_values + col) * p.cache_bytes;
    if (p.cache_bytes == 2)
      copy_async(to, valid ? from : cache, valid);
    else
      widen(to, from, valid);
  }
}

/// Scores of a tile into shared memory: each warp takes eight tokens and its part of the sum.
template <typename S>
__device__ void score_tile(const TensorBlock<S>& b, int stage) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int column = warp % S::column_tiles;
  const int split = warp / S::column_tiles;
  constexpr int width = S::key_dim / S::splits;
  const bf16* key = b.tiles + stage * S::stage + (column * 8 + lane % 8) * S::key_stride + split * width + lane / 8 * 8;
  const bf16* query = b.query + lane % 16 * S::key_stride + split * width + lane / 16 * 8;
  float sums[S::row_tiles][2][4] = {};  // two of each, so that products need not wait for each other
#pragma unroll 3
  for (int k = 0; k < width; k += 32) {
    std::uint32_t keys[4];
    load_matrices(keys, key + k);
#pragma unroll
    for (int m = 0; m < S::row_tiles; ++m) {
      std::uint32_t q[4];
      load_matrices(q, query + m * 16 * S::key_stride + k);
      multiply(sums[m][0], q, keys[0], keys[1]);
      load_matrices(q, query + m * 16 * S::key_stride + k + 16);
      multiply(sums[m][1], q, keys[2], keys[3]);
    }
  }
#pragma unroll
  for (int m = 0; m < S::row_tiles; ++m) {
    float* to = b.scores + (split * S::rows + m * 16 + lane / 4) * S::score_stride + column * 8 + lane % 4 * 2;
    *reinterpret_cast<float2*>(to) = make_float2(sums[m][0][0] + sums[m][1][0], sums[m][0][1] + sums[m][1][1]);
    *reinterpret_cast<float2*>(to + 8 * S::score_stride) =
        make_float2(sums[m][0][2] + sums[m][1][2], sums[m][0][3] + sums[m][1][3]);
  }
}

/// Running softmax of the rows that a warp owns (base two): largest score, and each lane's share of the sum.
template <typename S>
struct Running {
  float most[S::rows_each];
  float sum[S::rows_each];
};

template <typename S>
__device__ void weigh_tile(const AttendParams& p, const TensorBlock<S>& b, int tile, Running<S>& run) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float scale = p.scale * 1.4426950408889634F;
#pragma unroll
  for (int i = 0; i < S::rows_each; ++i) {
    const int row = warp + i * S::warps;
    const Stretch seen = b.seen[row];
    const std::int64_t token = b.unit.sequence * p.meta.tokens_each + b.unit.query(row);
    float score[S::lanes_each];
    float most = run.most[i];
#pragma unroll
    for (int j = 0; j < S::lanes_each; ++j) {
      const int col = lane + 32 * j;
      float sum = 0;
#pragma unroll
      for (int s = 0; s < S::splits; ++s) sum += b.scores[(s * S::rows + row) * S::score_stride + col];
      const bool seen_here = sees(p, token, seen, b.base, tile * S::tokens + col);
      score[j] = seen_here ? sum * scale : -INFINITY;
      most = fmaxf(most, score[j]);
    }
    most = warp_max(most);
    const float shrink = exp2_fast(run.most[i] - most);
    run.most[i] = most;
    run.sum[i] *= shrink;
#pragma unroll
    for (int j = 0; j < S::lanes_each; ++j) {
      const bf16 weight = __float2bfloat16_rn(exp2_fast(score[j] - most));
      run.sum[i] += __bfloat162float(weight);
      b.weights[row * S::score_stride + lane + 32 * j] = weight;
    }
    if (lane == 0) b.rescale[row] = shrink;
  }
}

template <typename S>
using Sums = float[S::row_tiles][S::columns / 8][4];

/// sums = sums shrunk + weights values, for the columns of this warp.
template <typename S>
__device__ void add_values(const TensorBlock<S>& b, int stage, Sums<S>& sums) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  constexpr int stride = S::values_in_keys ? S::key_stride : S::value_stride;
  constexpr int tiles = S::columns / 8;
  // With one tile of columns the second pair of matrices repeats the first: its address must stay inside.
  const int column = warp * S::columns + (tiles > 1 ? lane / 16 * 8 : 0);
  const bf16* value = b.tiles + stage * S::stage + (S::values_in_keys ? 0 : S::key_tile) +
                      (lane % 8 + lane / 8 % 2 * 8) * stride + column;
#pragma unroll
  for (int m = 0; m < S::row_tiles; ++m) {
    const float upper = b.rescale[m * 16 + lane / 4];
    const float lower = b.rescale[m * 16 + lane / 4 + 8];
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
      sums[m][n][0] *= upper;
      sums[m][n][1] *= upper;
      sums[m][n][2] *= lower;
      sums[m][n][3] *= lower;
    }
  }
#pragma unroll
  for (int k = 0; k < S::tokens; k += 16) {
    std::uint32_t weights[S::row_tiles][4];
#pragma unroll
    for (int m = 0; m < S::row_tiles; ++m)
      load_matrices(weights[m], b.weights + (m * 16 + lane % 16) * S::score_stride + k + lane / 16 * 8);
#pragma unroll
    for (int n = 0; n < tiles; n += 2) {
      std::uint32_t values[4];
      load_transposed(values, value + k * stride + n * 8);
#pragma unroll
      for (int m = 0; m < S::row_tiles; ++m) {
        multiply(sums[m][n], weights[m], values[0], values[1]);
        if (n + 1 < tiles) multiply(sums[m][n + 1 < tiles ? n + 1 : n], weights[m], values[2], values[3]);
      }
    }
  }
}

}  // namespace specstep::cuda
