// Tensor-core attention with keys and values of their own: head sizes 64 and 128. Each warp takes every fourth step of
// 16 tokens through shared memory of its own, with scores and weights in registers; the warps meet at the end.
#include "model/base/error.h"
#include "sim/cuda/kernels/attention_mma.cuh"

namespace specstep::cuda {

namespace {

/// Rows of shared memory are padded by 16 bytes, which keeps ldmatrix free of bank conflicts.
template <int Dim, int RowTiles>
struct Gqa {
  static constexpr int dim = Dim, row_tiles = RowTiles, rows = 16 * RowTiles;
  static constexpr int warps = 4, threads = 32 * warps;
  static constexpr int tokens = 16;  // of a step; divides a page
  static constexpr int stages = 2;
  static constexpr int stride = Dim + 8;
  static constexpr int half = tokens * stride;  // keys of a step, then its values
  static constexpr int ring = warps * stages * 2 * half;
  static constexpr int bytes = (ring + rows * stride) * 2;
  static constexpr int blocks_each = RowTiles == 1 ? 3 : 2;
  // At the end, in place of the ring: sums of the warps, their weights of the join, stats of the warps.
  static constexpr int sum_stride = Dim + 4;
  static constexpr int join_floats = warps * rows * sum_stride + rows * 32 + (warps + 1) * rows * 2;
  static_assert(join_floats * 4 <= bytes);
};

template <typename S>
struct Block {
  Unit unit;
  View view;
  const Stretch* seen;  // shared, [rows]
  bf16* ring;           // of this warp
  bf16* query;          // [rows][stride]
  std::int32_t base;    // committed tokens
};

/// A warp's running softmax of its rows (base two; lane / 4 and eight more, of each tile) and its sums.
template <typename S>
struct Running {
  float most[S::row_tiles][2];
  float sum[S::row_tiles][2];  // this lane's share
  float out[S::row_tiles][S::dim / 8][4];
};

/// Starts the copy of a step's keys and values: eight lanes for each row. `page`: that of the step.
template <typename S>
__device__ void copy_step(const AttendParams& p, const Block<S>& b, int step, int stage, std::int32_t page) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int first = lane % 8 * 8;
  const std::int32_t key_col = b.unit.kv_head * S::dim + first;
  const std::int32_t value_col = p.value_col + key_col;
  bf16* to = b.ring + stage * 2 * S::half + lane / 8 * S::stride + first;
  const auto copy_rows = [&](auto copy) {
#pragma unroll
    for (int i = 0; i < S::tokens; i += 4) {
      const std::int64_t row = cache_row(p, b.unit, b.view.all, step * S::tokens + i + lane / 8, page);
      copy(to + i * S::stride, row, key_col);
      copy(to + S::half + i * S::stride, row, value_col);
    }
  };
  if (p.cache_bytes == 2)
    copy_rows([&](bf16* at, std::int64_t row, int col) { copy_wide<S::dim / 64>(at, p, row, col); });
  else
    copy_rows([&](bf16* at, std::int64_t row, int col) { copy_narrow<S::dim / 64>(at, p, row, col); });
}

template <typename S>
using Scores = float[S::row_tiles][2][4];

template <typename S>
__device__ void score_step(const Block<S>& b, int stage, Scores<S>& scores) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bf16* key = b.ring + stage * 2 * S::half + (lane / 16 * 8 + lane % 8) * S::stride + lane / 8 % 2 * 8;
  const bf16* query = b.query + lane % 16 * S::stride + lane / 16 * 8;
  float second[S::row_tiles][2][4] = {};  // two sums of each, so that products need not wait for each other
#pragma unroll
  for (int k = 0; k < S::dim; k += 32) {
    std::uint32_t keys[2][4];
    load_matrices(keys[0], key + k);
    load_matrices(keys[1], key + k + 16);
#pragma unroll
    for (int m = 0; m < S::row_tiles; ++m) {
      std::uint32_t q[2][4];
      load_matrices(q[0], query + m * 16 * S::stride + k);
      load_matrices(q[1], query + m * 16 * S::stride + k + 16);
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        multiply(scores[m][n], q[0], keys[0][2 * n], keys[0][2 * n + 1]);
        multiply(second[m][n], q[1], keys[1][2 * n], keys[1][2 * n + 1]);
      }
    }
  }
#pragma unroll
  for (int m = 0; m < S::row_tiles; ++m)
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[m][n][i] += second[m][n][i];
}

/// Scores in base two, -infinity where a row does not see the token.
template <typename S>
__device__ void hide_unseen(const AttendParams& p, const Block<S>& b, int step, Scores<S>& scores) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float scale = p.scale * 1.4426950408889634F;
#pragma unroll
  for (int m = 0; m < S::row_tiles; ++m)
#pragma unroll
    for (int n = 0; n < 2; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) scores[m][n][i] *= scale;
  const int first = step * S::tokens;
  if (first >= b.view.common.begin && first + S::tokens <= b.view.common.end) return;
#pragma unroll
  for (int m = 0; m < S::row_tiles; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = m * 16 + lane / 4 + h * 8;
      const std::int64_t token = b.unit.sequence * p.meta.tokens_each + b.unit.query(row);
      const std::uint32_t bits = seen_bits(p, token, b.base, b.seen[row], first, S::tokens) >> (lane % 4 * 2);
#pragma unroll
      for (int n = 0; n < 2; ++n)
#pragma unroll
        for (int i = 0; i < 2; ++i)
          if ((bits >> (n * 8 + i) & 1) == 0) scores[m][n][2 * h + i] = -INFINITY;
    }
}

/// Scores become weights, in the fragments that the product with the values takes.
template <typename S>
__device__ void weigh_step(Scores<S>& scores, Running<S>& run, std::uint32_t (&weights)[S::row_tiles][4]) {
#pragma unroll
  for (int m = 0; m < S::row_tiles; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float most = run.most[m][h];
#pragma unroll
      for (int n = 0; n < 2; ++n) most = fmaxf(most, fmaxf(scores[m][n][2 * h], scores[m][n][2 * h + 1]));
      most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 1));
      most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, 2));
      const float shrink = exp2_fast(run.most[m][h] - most);
      run.most[m][h] = most;
      run.sum[m][h] *= shrink;
      if (__any_sync(0xFFFFFFFFU, shrink != 1.0F)) {
#pragma unroll
        for (int n = 0; n < S::dim / 8; ++n) {
          run.out[m][n][2 * h] *= shrink;
          run.out[m][n][2 * h + 1] *= shrink;
        }
      }
#pragma unroll
      for (int n = 0; n < 2; ++n) {
        const __nv_bfloat162 pair =
            __floats2bfloat162_rn(exp2_fast(scores[m][n][2 * h] - most), exp2_fast(scores[m][n][2 * h + 1] - most));
        run.sum[m][h] += __low2float(pair) + __high2float(pair);
        weights[m][2 * n + h] = *reinterpret_cast<const std::uint32_t*>(&pair);
      }
    }
}

template <typename S>
__device__ void add_values(const Block<S>& b, int stage, const std::uint32_t (&weights)[S::row_tiles][4],
                           Running<S>& run) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bf16* value = b.ring + (stage * 2 + 1) * S::half + lane % 16 * S::stride + lane / 16 * 8;
#pragma unroll
  for (int n = 0; n < S::dim / 8; n += 2) {
    std::uint32_t values[4];
    load_transposed(values, value + n * 8);
#pragma unroll
    for (int m = 0; m < S::row_tiles; ++m) {
      multiply(run.out[m][n], weights[m], values[0], values[1]);
      multiply(run.out[m][n + 1], weights[m], values[2], values[3]);
    }
  }
}

/// The steps of a warp, each copied while the one before is computed.
template <typename S>
__device__ void run_steps(const AttendParams& p, const Block<S>& b, const Part& part, Running<S>& run) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int end = part.first_tile + part.tiles;
  const int first = part.first_tile + warp;
  const auto page_of = [&](int step) { return cache_page(p, b.unit, step * S::tokens, step < end); };
  std::int32_t page = page_of(first);
  // What committed tokens left in the cache is older than the kernel before.
  const bool old = !p.selected && (first + 1) * S::tokens <= b.base;
  if (!old) await_predecessors();
  if (first < end) copy_step(p, b, first, 0, page);
  page = page_of(first + S::warps);
  if (old) await_predecessors();
  copy_query<S::rows, S::dim, S::stride, S::threads>(p, b.unit, b.query);
  commit_copies();
  await_copies<0>();
  __syncthreads();  // the query is here
  int stage = 0;
  for (int step = first; step < end; step += S::warps) {
    await_copies<0>();
    __syncwarp();  // the step is here, and no lane reads the one before it any more
    if (step + S::warps < end) copy_step(p, b, step + S::warps, stage ^ 1, page);
    page = page_of(step + 2 * S::warps);  // early, so that its copy need not wait for it
    commit_copies();
    Scores<S> scores = {};
    score_step(b, stage, scores);
    hide_unseen(p, b, step, scores);
    std::uint32_t weights[S::row_tiles][4];
    weigh_step<S>(scores, run, weights);
    add_values(b, stage, weights, run);
    stage ^= 1;
  }
}

/// The warps' sums become the block's, in place of the ring.
template <typename S>
__device__ PartSums join_warps(const Unit& u, Running<S>& run, float* memory) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float* sums = memory;  // [warps][rows][sum_stride]; the first become the block's
  float* weights = sums + S::warps * S::rows * S::sum_stride;
  auto* stats = reinterpret_cast<float2*>(weights + S::rows * 32);  // [warps][rows], then the block's
  __syncthreads();
#pragma unroll
  for (int m = 0; m < S::row_tiles; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = m * 16 + lane / 4 + h * 8;
      float sum = run.sum[m][h];
      sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 1);
      sum += __shfl_xor_sync(0xFFFFFFFFU, sum, 2);
      if (row >= u.rows) continue;
      if (lane % 4 == 0) stats[warp * S::rows + row] = make_float2(run.most[m][h] * 0.6931471805599453F, sum);
      float* to = sums + (warp * S::rows + row) * S::sum_stride + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < S::dim / 8; ++n)
        *reinterpret_cast<float2*>(to + n * 8) = make_float2(run.out[m][n][2 * h], run.out[m][n][2 * h + 1]);
    }
  __syncthreads();
  constexpr int quads = S::dim / 4;
  for (int i = static_cast<int>(threadIdx.x); i < u.rows * quads; i += S::threads) {
    const int row = i / quads;
    const int col = i % quads * 4;
    float2 all = stats[row];
#pragma unroll
    for (int w = 1; w < S::warps; ++w) all.x = fmaxf(all.x, stats[w * S::rows + row].x);
    all.y = 0;
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int w = 0; w < S::warps; ++w) {
      const float2 own = stats[w * S::rows + row];
      const float weight = expf(own.x - all.x);
      all.y += weight * own.y;
      add_scaled(sum, weight, *reinterpret_cast<const float4*>(sums + (w * S::rows + row) * S::sum_stride + col));
    }
    *reinterpret_cast<float4*>(sums + row * S::sum_stride + col) = sum;
    if (col == 0) stats[S::warps * S::rows + row] = all;
  }
  return {sums, stats + S::warps * S::rows, weights, S::sum_stride};
}

template <typename S>
__global__ void __launch_bounds__(S::threads, S::blocks_each) attend_gqa(const __grid_constant__ AttendParams p) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ Stretch seen[S::rows];
  Block<S> b{};
  auto* ring = reinterpret_cast<bf16*>(memory);
  b.ring = ring + static_cast<int>(threadIdx.x) / 32 * S::stages * 2 * S::half;
  b.query = ring + S::ring;
  b.seen = seen;
  b.unit = unit_of(p, static_cast<std::int32_t>(blockIdx.x), static_cast<std::int32_t>(blockIdx.z));
  b.base = p.meta.base[b.unit.sequence];
  b.view = look(p, b.unit, S::rows, seen);
  const auto number = static_cast<std::int32_t>(blockIdx.y);
  const Part part = part_of(b.view.all, S::tokens, number, p.parts);
  if (number / p.cluster * p.cluster >= part.active) return;
  Running<S> run = {};
#pragma unroll
  for (int m = 0; m < S::row_tiles; ++m) run.most[m][0] = run.most[m][1] = nothing_seen;
  if (number < part.active)
    run_steps(p, b, part, run);
  else
    await_predecessors();
  join_cluster<bf16>(p, b.unit, part.active, join_warps<S>(b.unit, run, reinterpret_cast<float*>(memory)));
}

template <typename S>
constexpr TensorNeeds needs_of() {
  return {S::row_tiles, S::rows, S::warps * S::tokens, S::blocks_each};
}
template <int Dim>
TensorNeeds needs(int row_tiles, int shared_bytes) {
  constexpr int fixed = 32 * 16;  // arrays of fixed size
  if (row_tiles >= 2 && Gqa<Dim, 2>::bytes + fixed <= shared_bytes) return needs_of<Gqa<Dim, 2>>();
  return Gqa<Dim, 1>::bytes + fixed <= shared_bytes ? needs_of<Gqa<Dim, 1>>() : TensorNeeds{};
}

template <typename S>
void launch(const AttendParams& p, dim3 grid, cudaStream_t stream) {
  launch_parts({reinterpret_cast<const void*>(attend_gqa<S>), grid, S::threads, S::bytes}, p, stream);
}
template <int Dim>
void launch_of(const AttendParams& p, int row_tiles, dim3 grid, cudaStream_t stream) {
  if (row_tiles == 2) return launch<Gqa<Dim, 2>>(p, grid, stream);
  launch<Gqa<Dim, 1>>(p, grid, stream);
}

}  // namespace

TensorNeeds gqa_needs(std::int64_t head_dim, int row_tiles, int shared_bytes) {
  if (head_dim == 128) return needs<128>(row_tiles, shared_bytes);
  if (head_dim == 64) return needs<64>(row_tiles, shared_bytes);
  return {};
}

void launch_gqa(const AttendParams& p, int row_tiles, dim3 grid, cudaStream_t stream) {
  if (p.score_dim == 128) return launch_of<128>(p, row_tiles, grid, stream);
  if (p.score_dim == 64) return launch_of<64>(p, row_tiles, grid, stream);
  throw Error("attention: no tensor-core kernel of this head size");
}

}  // namespace specstep::cuda
