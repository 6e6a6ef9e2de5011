// Tensor-core attention over a latent cache (mla, absorbed): rank 512 and 64 rotated values, as DeepSeek-V3 and the
// stacks after it have. All heads read the same row; its first 512 values are key and value. The warps of a block share
// each tile: for the scores they split the tokens and the sum, for the output its columns.
#include "model/base/error.h"
#include "sim/cuda/kernels/attention_mma.cuh"

namespace specstep::cuda {

namespace {

/// Rows of shared memory are padded by 16 bytes, which keeps ldmatrix free of bank conflicts.
template <int RowTiles>
struct Mla {
  static constexpr int key_dim = 576, value_dim = 512, row_tiles = RowTiles, rows = 16 * RowTiles;
  static constexpr int warps = 8, threads = 32 * warps;
  static constexpr int tokens = 32;  // of a tile; divides a page
  static constexpr int stages = RowTiles == 1 ? 2 : 5;
  static constexpr int ahead = RowTiles == 1 ? 1 : 3;  // tiles on their way beside those at work
  static constexpr int stride = key_dim + 8;
  static constexpr int tile = tokens * stride;
  static constexpr int splits = 4;  // of the sum of a score; the other two warps of each: halves of the tokens
  static constexpr int width = key_dim / splits;
  static constexpr int score_stride = tokens + 8;
  static constexpr int columns = value_dim / warps;  // of the output, of a warp
  static constexpr int lanes_each = threads / rows;  // of the softmax, for a row
  static constexpr int tokens_each = tokens / lanes_each;
  static constexpr int blocks_each = RowTiles == 1 ? 2 : 1;  // of a multiprocessor
  static constexpr int bytes = stages * tile * 2 + splits * rows * score_stride * 4 + rows * score_stride * 2;
  // At the end, in place of the tiles: the block's sums, and weights of the join.
  static constexpr int sum_stride = value_dim + 4;
  static_assert(rows * (sum_stride + 32) * 4 <= stages * tile * 2);
  static_assert(rows <= tokens);  // the queries pass through the last tile's place
};

template <typename S>
struct Block {
  Unit unit;
  View view;
  std::int32_t base;
  Stretch* seen;   // all shared: [rows]
  float* rescale;  // [rows]
  bf16* tiles;     // [stages][tokens][stride]
  float* scores;   // [splits][rows][score_stride]
  bf16* weights;   // [rows][score_stride]
};

/// What a thread keeps from tile to tile: its row's running softmax (base two), its sums of the warp's columns, and its
/// share of the queries, which stay in registers.
template <typename S>
struct Running {
  float most = nothing_seen;
  float sum = 0;  // of this lane's tokens
  float out[S::row_tiles][S::columns / 8][4] = {};
  std::uint32_t query[S::row_tiles][S::width / 16][4];
};

/// Starts the copy of a tile: eight lanes for each row. `page`: that of the tile.
template <typename S>
__device__ void copy_tile(const AttendParams& p, const Block<S>& b, int tile, int stage, std::int32_t page) {
  const int token = static_cast<int>(threadIdx.x) / 8;
  const int first = static_cast<int>(threadIdx.x) % 8 * 8;
  const std::int64_t row = cache_row(p, b.unit, b.view.all, tile * S::tokens + token, page);
  bf16* to = b.tiles + stage * S::tile + token * S::stride + first;
  if (p.cache_bytes == 2)
    copy_wide<S::key_dim / 64>(to, p, row, first);
  else
    copy_narrow<S::key_dim / 64>(to, p, row, first);
}

/// Scores of a tile into shared memory: each warp takes 16 tokens and a quarter of the sum.
template <typename S>
__device__ void score_tile(const Block<S>& b, int stage, const Running<S>& run) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int split = warp % S::splits;
  const int half = warp / S::splits;
  const bf16* key = b.tiles + stage * S::tile + (half * 16 + lane / 16 * 8 + lane % 8) * S::stride + split * S::width +
                    lane / 8 % 2 * 8;
  constexpr int chains = S::row_tiles == 1 ? 2 : 1;  // sums of each, so that products need not wait for each other
  float sums[chains][S::row_tiles][2][4] = {};
#pragma unroll
  for (int k = 0; k < S::width / 16; ++k) {
    std::uint32_t keys[4];
    load_matrices(keys, key + k * 16);
#pragma unroll
    for (int m = 0; m < S::row_tiles; ++m)
#pragma unroll
      for (int n = 0; n < 2; ++n) multiply(sums[k % chains][m][n], run.query[m][k], keys[2 * n], keys[2 * n + 1]);
  }
#pragma unroll
  for (int m = 0; m < S::row_tiles; ++m)
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      float(&sum)[4] = sums[0][m][n];
#pragma unroll
      for (int i = 0; chains > 1 && i < 4; ++i) sum[i] += sums[chains - 1][m][n][i];
      float* to = b.scores + (split * S::rows + m * 16 + lane / 4) * S::score_stride + half * 16 + n * 8 + lane % 4 * 2;
      *reinterpret_cast<float2*>(to) = make_float2(sum[0], sum[1]);
      *reinterpret_cast<float2*>(to + 8 * S::score_stride) = make_float2(sum[2], sum[3]);
    }
}

/// Scores become weights; a row's threads are neighbours in a warp.
template <typename S>
__device__ void weigh_tile(const AttendParams& p, const Block<S>& b, int tile, Running<S>& run) {
  const int row = static_cast<int>(threadIdx.x) / S::lanes_each;
  const int first = static_cast<int>(threadIdx.x) % S::lanes_each * S::tokens_each;
  const float scale = p.scale * 1.4426950408889634F;
  float score[S::tokens_each] = {};
#pragma unroll
  for (int s = 0; s < S::splits; ++s)
#pragma unroll
    for (int i = 0; i < S::tokens_each; i += 2) {
      const float* from = b.scores + (s * S::rows + row) * S::score_stride + first + i;
      const auto pair = *reinterpret_cast<const float2*>(from);
      score[i] += pair.x;
      score[i + 1] += pair.y;
    }
  const int entry = tile * S::tokens;
  std::uint32_t bits = ~0U;
  if (entry < b.view.common.begin || entry + S::tokens > b.view.common.end) {
    const std::int64_t token = b.unit.sequence * p.meta.tokens_each + b.unit.query(row);
    bits = seen_bits(p, token, b.base, b.seen[row], entry + first, S::tokens_each);
  }
  float most = run.most;
#pragma unroll
  for (int i = 0; i < S::tokens_each; ++i) {
    score[i] = (bits >> i & 1) != 0 ? score[i] * scale : -INFINITY;
    most = fmaxf(most, score[i]);
  }
#pragma unroll
  for (int d = 1; d < S::lanes_each; d *= 2) most = fmaxf(most, __shfl_xor_sync(0xFFFFFFFFU, most, d));
  const float shrink = exp2_fast(run.most - most);
  run.most = most;
  run.sum *= shrink;
#pragma unroll
  for (int i = 0; i < S::tokens_each; i += 2) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(exp2_fast(score[i] - most), exp2_fast(score[i + 1] - most));
    run.sum += __low2float(pair) + __high2float(pair);
    *reinterpret_cast<__nv_bfloat162*>(b.weights + row * S::score_stride + first + i) = pair;
  }
  if (first == 0) b.rescale[row] = shrink;
}

/// sums = sums shrunk + weights values, for the columns of this warp.
template <typename S>
__device__ void add_values(const Block<S>& b, int stage, Running<S>& run) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bf16* value = b.tiles + stage * S::tile + lane % 16 * S::stride + warp * S::columns + lane / 16 * 8;
#pragma unroll
  for (int m = 0; m < S::row_tiles; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float shrink = b.rescale[m * 16 + lane / 4 + 8 * h];
      if (!__any_sync(0xFFFFFFFFU, shrink != 1.0F)) continue;
#pragma unroll
      for (int n = 0; n < S::columns / 8; ++n) {
        run.out[m][n][2 * h] *= shrink;
        run.out[m][n][2 * h + 1] *= shrink;
      }
    }
#pragma unroll
  for (int k = 0; k < S::tokens; k += 16) {
    std::uint32_t weights[S::row_tiles][4];
#pragma unroll
    for (int m = 0; m < S::row_tiles; ++m)
      load_matrices(weights[m], b.weights + (m * 16 + lane % 16) * S::score_stride + k + lane / 16 * 8);
#pragma unroll
    for (int n = 0; n < S::columns / 8; n += 2) {
      std::uint32_t values[4];
      load_transposed(values, value + k * S::stride + n * 8);
#pragma unroll
      for (int m = 0; m < S::row_tiles; ++m) {
        multiply(run.out[m][n], weights[m], values[0], values[1]);
        multiply(run.out[m][n + 1], weights[m], values[2], values[3]);
      }
    }
  }
}

/// A warp's share of the queries, from the place of the last tile.
template <typename S>
__device__ void keep_query(const Block<S>& b, Running<S>& run) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int split = static_cast<int>(threadIdx.x) / 32 % S::splits;
  const bf16* from = b.tiles + (S::stages - 1) * S::tile + lane % 16 * S::stride + split * S::width + lane / 16 * 8;
#pragma unroll
  for (int m = 0; m < S::row_tiles; ++m)
#pragma unroll
    for (int k = 0; k < S::width / 16; ++k) load_matrices(run.query[m][k], from + m * 16 * S::stride + k * 16);
}

/// The tiles of a part on their way into the stages.
template <typename S>
class Copies {
 public:
  __device__ Copies(const AttendParams& p, const Block<S>& b, const Part& part)
      : p_(p), b_(b), first_(part.first_tile), end_(part.first_tile + part.tiles), page_(page_of(part.first_tile)) {}
  /// Starts the next tile, nothing where there is none.
  __device__ void start(int tile) {
    if (tile < end_) copy_tile(p_, b_, tile, stage_of(tile), page_);
    page_ = page_of(tile + 1);  // early, so that its copy need not wait for it
  }
  __device__ int stage_of(int tile) const { return (tile - first_) % S::stages; }

 private:
  __device__ std::int32_t page_of(int tile) const { return cache_page(p_, b_.unit, tile * S::tokens, tile < end_); }

  const AttendParams& p_;
  const Block<S>& b_;
  int first_, end_;
  std::int32_t page_;
};

/// The first tiles and the queries; ends with the queries in registers.
template <typename S>
__device__ void begin_tiles(const AttendParams& p, const Block<S>& b, int first, Copies<S>& copies, Running<S>& run) {
  // What committed tokens left in the cache is older than the kernel before.
  const bool old = !p.selected && (first + 1) * S::tokens <= b.base;
  if (!old) await_predecessors();
  copies.start(first);
  if (old) await_predecessors();
  copy_query<S::rows, S::key_dim, S::stride, S::threads>(p, b.unit, b.tiles + (S::stages - 1) * S::tile);
  commit_copies();
#pragma unroll 1
  for (int i = 1; i < S::ahead; ++i) {
    copies.start(first + i);
    commit_copies();
  }
  await_copies<S::ahead - 1>();
  __syncthreads();
  keep_query(b, run);
}

/// All tiles of the part, one after the other.
template <typename S>
__device__ void run_tiles(const AttendParams& p, const Block<S>& b, const Part& part, Running<S>& run) {
  const int first = part.first_tile;
  const int end = first + part.tiles;
  Copies<S> copies(p, b, part);
  begin_tiles(p, b, first, copies, run);
  if constexpr (S::ahead == S::stages - 1) {
    for (int tile = first; tile < end; ++tile) {
      await_copies<S::ahead - 1>();
      __syncthreads();  // the tile is here, and nobody reads the one before it any more
      copies.start(tile + S::ahead);
      commit_copies();
      score_tile(b, copies.stage_of(tile), run);
      __syncthreads();
      weigh_tile(p, b, tile, run);
      __syncthreads();
      add_values(b, copies.stage_of(tile), run);
    }
  } else {
    // Products of two tiles at once: the values of one, the scores of the next.
    score_tile(b, 0, run);
    for (int tile = first; tile < end; ++tile) {
      __syncthreads();  // the scores are here, and nobody reads the tile before any more
      copies.start(tile + S::ahead);
      commit_copies();
      weigh_tile(p, b, tile, run);
      await_copies<S::ahead - 1>();
      __syncthreads();                                // the weights and the next tile are here
      score_tile(b, copies.stage_of(tile + 1), run);  // of nothing behind the last tile, for nobody
      add_values(b, copies.stage_of(tile), run);
    }
  }
  await_copies<0>();
}

/// The block's sums, in place of the tiles.
template <typename S>
__device__ PartSums put_sums(const Unit& u, const Running<S>& run, float* sums, float2* stats) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  float sum = run.sum;
#pragma unroll
  for (int d = 1; d < S::lanes_each; d *= 2) sum += __shfl_xor_sync(0xFFFFFFFFU, sum, d);
  if (threadIdx.x % S::lanes_each == 0)
    stats[threadIdx.x / S::lanes_each] = make_float2(run.most * 0.6931471805599453F, sum);
  __syncthreads();
#pragma unroll
  for (int m = 0; m < S::row_tiles; ++m)
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int row = m * 16 + lane / 4 + h * 8;
      if (row >= u.rows) continue;
      float* to = sums + row * S::sum_stride + warp * S::columns + lane % 4 * 2;
#pragma unroll
      for (int n = 0; n < S::columns / 8; ++n)
        *reinterpret_cast<float2*>(to + n * 8) = make_float2(run.out[m][n][2 * h], run.out[m][n][2 * h + 1]);
    }
  return {sums, stats, sums + S::rows * S::sum_stride, S::sum_stride};
}

template <typename S>
__global__ void __launch_bounds__(S::threads, S::blocks_each) attend_mla(const __grid_constant__ AttendParams p) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ Stretch seen[S::rows];
  __shared__ float rescale[S::rows];
  __shared__ float2 stats[S::rows];
  Block<S> b{};
  b.seen = seen;
  b.rescale = rescale;
  b.tiles = reinterpret_cast<bf16*>(memory);
  b.scores = reinterpret_cast<float*>(b.tiles + S::stages * S::tile);
  b.weights = reinterpret_cast<bf16*>(b.scores + S::splits * S::rows * S::score_stride);
  b.unit = unit_of(p, static_cast<std::int32_t>(blockIdx.x), static_cast<std::int32_t>(blockIdx.z));
  b.base = p.meta.base[b.unit.sequence];
  b.view = look(p, b.unit, S::rows, seen);
  const auto number = static_cast<std::int32_t>(blockIdx.y);
  const Part part = part_of(b.view.all, S::tokens, number, p.parts);
  if (number / p.cluster * p.cluster >= part.active) return;
  PartSums sums{};
  {
    Running<S> run;
    if (number < part.active)
      run_tiles(p, b, part, run);
    else
      await_predecessors();
    sums = put_sums<S>(b.unit, run, reinterpret_cast<float*>(memory), stats);
  }
  join_cluster<bf16>(p, b.unit, part.active, sums);
}

template <typename S>
constexpr TensorNeeds needs_of() {
  return {S::row_tiles, S::rows, S::tokens, S::blocks_each};
}

template <typename S>
void launch(const AttendParams& p, dim3 grid, cudaStream_t stream) {
  launch_parts({reinterpret_cast<const void*>(attend_mla<S>), grid, S::threads, S::bytes}, p, stream);
}

}  // namespace

TensorNeeds mla_needs(std::int64_t score_dim, std::int64_t value_dim, int row_tiles, int shared_bytes) {
  if (score_dim != Mla<1>::key_dim || value_dim != Mla<1>::value_dim) return {};
  constexpr int fixed = 32 * 24;  // arrays of fixed size
  if (row_tiles >= 2 && Mla<2>::bytes + fixed <= shared_bytes) return needs_of<Mla<2>>();
  return Mla<1>::bytes + fixed <= shared_bytes ? needs_of<Mla<1>>() : TensorNeeds{};
}

void launch_mla(const AttendParams& p, int row_tiles, dim3 grid, cudaStream_t stream) {
  if (row_tiles == 2) return launch<Mla<2>>(p, grid, stream);
  launch<Mla<1>>(p, grid, stream);
}

}  // namespace specstep::cuda
