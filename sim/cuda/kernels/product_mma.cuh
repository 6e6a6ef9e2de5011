// Products of few rows on tensor cores. The weights are the operand of 16 rows, the tokens that of 8 columns, so one
// token costs one column. Each warp keeps a ring of copies in flight; since it runs on into the next items of its
// block, the memory never waits for a row to be staged or a sum to be made.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "sim/cuda/kernels/product_formats.h"
#include "sim/cuda/kernels/product_stage.cuh"

namespace specstep::cuda {

inline constexpr int sum_stride = 20;  // floats from token to token: a fragment's writes meet all banks

using Sums = float[mma_rows / 8][4];  // of a warp's 16 weight rows and up to 16 tokens

__device__ inline void mma_16816(float (&d)[4], const std::uint32_t (&a)[4], uint2 b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

/// What a thread reads of a chunk: 16 bytes of a tile, or of each of rows g and g + 8.
template <class Codec>
struct Words {
  std::uint32_t w[Codec::plain ? 8 : 4];

  __device__ Words(const unsigned char* chunk, int tile, int lane) {
    if constexpr (Codec::plain) {
      const unsigned char* row = chunk + lane / 4 * 128;
      const int turned = (tile * 4 + lane % 4) ^ (lane / 4 % 2 * 4);
      keep(row + turned * 16, w), keep(row + 1024 + turned * 16, w + 4);
    } else {
      keep(chunk + tile * tile_bytes + lane * 16, w);
    }
  }

 private:
  __device__ static void keep(const unsigned char* at, std::uint32_t* words) {
    const uint4 v = *reinterpret_cast<const uint4*>(at);
    words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
  }
};

/// A chunk in the ring. `scales`: those of this thread's rows; the first is of column -`into` of the chunk.
template <class Codec>
struct ChunkView {
  const unsigned char* values;
  const typename Codec::Scale* scales;
  int into, group_shift;
  bool scaled;

  __device__ float2 scale(int col) const {
    return scaled ? Codec::scale(scales[((into + col) >> group_shift) * 8]) : float2{1, 1};
  }
};

/// What a thread reads of a staged row for one tile.
template <class Codec>
struct Tokens {
  uint2 of_step[Codec::cols / 16];

  __device__ explicit Tokens(const __nv_bfloat16* at) {
    if constexpr (Codec::plain) {
      [[maybe_unused]] const uint4 v = *reinterpret_cast<const uint4*>(at);
      of_step[0] = {v.x, v.y}, of_step[1] = {v.z, v.w};
    } else {
#pragma unroll
      for (int step = 0; step < Codec::cols / 16; ++step) of_step[step] = *reinterpret_cast<const uint2*>(at + step * 16);
    }
  }
};

/// sums += chunk tokens. Products of a scale group are summed first and scaled once, in fp32. `tokens`: staged values of
/// this thread's token of each fragment, from the chunk's first column on.
template <class Codec, int fragments>
__device__ void multiply_chunk(const ChunkView<Codec>& chunk, const __nv_bfloat16* const (&tokens)[mma_rows / 8],
                               int lane, Sums& sums) {
  constexpr int each = Codec::scale_cols;
#pragma unroll
  for (int tile = 0; tile < Chunk<Codec>::cols / Codec::cols; ++tile) {
    const Words<Codec> words(chunk.values, tile, lane);
    const Tokens<Codec> row[2] = {Tokens<Codec>(tokens[0] + tile * Codec::cols),
                                  Tokens<Codec>(tokens[fragments - 1] + tile * Codec::cols)};
    Sums part = {};
#pragma unroll
    for (int step = 0; step < Codec::cols / 16; ++step) {
      std::uint32_t a[4];
      Codec::unpack(words.w, step, a);
#pragma unroll
      for (int j = 0; j < fragments; ++j) mma_16816(each > 0 ? part[j] : sums[j], a, row[j].of_step[step]);
      if constexpr (each > 0) {
        if ((step + 1) * 16 % each != 0) continue;
        const float2 scale = chunk.scale(tile * Codec::cols + step * 16 + 16 - each);
#pragma unroll
        for (int j = 0; j < fragments; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            sums[j][i] = fmaf(i < 2 ? scale.x : scale.y, part[j][i], sums[j][i]);
            part[j][i] = 0;
          }
      }
    }
  }
}

__device__ inline void put_result(const ProductJob& job, std::int64_t pair, int row, float sum) {
  const float value = sum * job.weight.whole_scale;
  const std::int64_t at = pair * job.out_stride + row;
  if (job.f32_out)
    static_cast<float*>(job.out)[at] = value;
  else
    static_cast<__nv_bfloat16*>(job.out)[at] = __float2bfloat16_rn(value);
}

__device__ inline void wait_for_team(const WarpPlace& place, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(1 + place.team), "r"(threads) : "memory");
}

/// Writes a warp's sums of one row of tiles and `rows` staged rows. Where a team shares the row of tiles, its sums are
/// added in the order of the warps: the same bits in every run.
template <class Codec>
__device__ void write_sums(const ProductJob& job, const MmaShape& shape, const WarpPlace& place,
                           const Stage<Codec>& stage, const Sums& sums, float* shared, int row_begin, int rows) {
  const int team_warps = 1 << shape.along_shift, lane = place.lane;
  float* own = shared + place.warp * mma_rows * sum_stride;
  if (team_warps > 1) wait_for_team(place, 32 * team_warps);  // earlier sums have been read
#pragma unroll
  for (int j = 0; j < mma_rows / 8; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = 8 * j + lane % 4 * 2 + i % 2, row = lane / 4 + i / 2 * 8;
      if (token >= rows) continue;
      if (team_warps > 1)
        own[token * sum_stride + row] = sums[j][i];
      else if (row_begin + row < job.weight.rows)
        put_result(job, stage.pair(token), row_begin + row, sums[j][i]);
    }
  if (team_warps == 1) return;
  wait_for_team(place, 32 * team_warps);
  const float* first = shared + (place.team << shape.along_shift) * mma_rows * sum_stride;
  for (int i = place.member * 32 + lane; i < rows * tile_rows; i += 32 * team_warps) {
    const int token = i / tile_rows, row = i % tile_rows;
    if (row_begin + row >= job.weight.rows) continue;
    float sum = 0;
    for (int w = 0; w < team_warps; ++w) sum += first[(w * mma_rows + token) * sum_stride + row];
    put_result(job, stage.pair(token), row_begin + row, sum);
  }
}

/// A warp's reading end of its ring.
template <class Codec>
class Consumer {
 public:
  __device__ Consumer(const ProductJob& job, const MmaShape& shape, const WarpPlace& place, const unsigned char* ring,
                      Feed<Codec>& feed)
      : job_(job), shape_(shape), place_(place), ring_(ring), feed_(feed) {}

  /// Chunks [first, last) of the warp's row of tiles by the staged columns, which begin with chunk `staged`.
  __device__ void multiply(const Stage<Codec>& stage, int staged, int last, int rows, Sums& sums) {
    using Part = Chunk<Codec>;
    const int lane = place_.lane;
    // Columns of a fragment without a token repeat the last one's; their sums are not written.
    const __nv_bfloat16* values = stage.values() + lane % 4 * Codec::thread_cols + place_.member * Part::cols;
    const __nv_bfloat16* token_0 = values + min(lane / 4, rows - 1) * stage.stride();
    const __nv_bfloat16* token_1 = values + min(8 + lane / 4, rows - 1) * stage.stride();
    const bool scaled = Codec::always_scaled || job_.weight.group > 0;
    const int group = scaled && Codec::scale_cols > 0 ? 1 << shape_.group_shift : 1;
    const int lead = static_cast<int>(job_.weight.phase - job_.weight.lead);
    for (int chunk = staged + place_.member; chunk < last; chunk += 1 << shape_.along_shift) {
      Feed<Codec>::wait();
      const unsigned char* at = ring_ + turn_ * Part::bytes;
      const ChunkView<Codec> view{
          at, reinterpret_cast<const typename Codec::Scale*>(at + Part::value_bytes) + lane / 4,
          (lead + chunk * Part::cols) & (group - 1), shape_.group_shift, scaled};
      if (rows > 8)
        multiply_chunk<Codec, 2>(view, {token_0, token_1}, lane, sums);
      else
        multiply_chunk<Codec, 1>(view, {token_0, token_1}, lane, sums);
      token_0 += Part::cols << shape_.along_shift, token_1 += Part::cols << shape_.along_shift;
      __syncwarp();
      feed_.load(turn_);
      turn_ = turn_ + 1 == ring_depth ? 0 : turn_ + 1;
    }
  }

 private:
  const ProductJob& job_;
  const MmaShape& shape_;
  const WarpPlace& place_;
  const unsigned char* ring_;
  Feed<Codec>& feed_;
  int turn_ = 0;
};

template <class Codec>
__global__ void __launch_bounds__(mma_threads, 2) multiply(const ProductJob job, const MmaShape shape) {
  extern __shared__ __align__(128) unsigned char shared[];
  constexpr int ring_bytes = ring_depth * Chunk<Codec>::bytes;
  auto* totals = reinterpret_cast<float*>(shared + mma_warps * ring_bytes);
  auto* pairs = reinterpret_cast<int*>(totals + (shape.along_shift > 0 ? mma_warps * mma_rows * sum_stride : 0));
  auto* staged = reinterpret_cast<__nv_bfloat16*>(pairs + mma_rows);
  const BlockWork work(job, reinterpret_cast<int2*>(staged + shape.stage_values));
  const WarpPlace place(shape);
  const unsigned char* ring = shared + place.warp * ring_bytes;
  Feed<Codec> feed(job, shape, work, ring);
  for (int i = 0; i < ring_depth; ++i) feed.load(i);

  Consumer<Codec> consumer(job, shape, place, ring, feed);
  const int padded = shape.chunks * Chunk<Codec>::cols, teams = mma_warps >> shape.along_shift;
  Stage<Codec> stage(job, shape, work, staged, pairs);
  for (int item = work.begin(); item < work.end();) {
    const Stretch now = work.from(item);
    item += now.last - now.begin;
    for (int row = now.begin; row < now.last; row += teams) {
      const bool some = row + place.team < now.last;
      for (int first = now.first; first < now.end; first += job.cap) {
        const int rows = min(job.cap, now.end - first);
        stage.plan(rows, Chunk<Codec>::cols << shape.along_shift, padded);
        Sums sums = {};
        for (int from = 0; from < padded; from += stage.cols()) {
          stage.fetch(first, rows, from, padded);
          const int until = min(from + stage.cols(), padded);
          if (some) consumer.multiply(stage, from / Chunk<Codec>::cols, until / Chunk<Codec>::cols, rows, sums);
        }
        if (some) write_sums(job, shape, place, stage, sums, totals, (row + place.team) * tile_rows, rows);
      }
    }
  }
}

/// Shared memory that a block may take if `blocks` are to stand on one multiprocessor.
inline int shared_room(int blocks) {
  int device = 0, most = 0, whole = 0, reserved = 0;
  comm::check(cudaGetDevice(&device), "product");
  comm::check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "product");
  comm::check(cudaDeviceGetAttribute(&whole, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device), "product");
  comm::check(cudaDeviceGetAttribute(&reserved, cudaDevAttrReservedSharedMemoryPerBlock, device), "product");
  return std::min(most, whole / blocks - reserved);
}

/// How many values of the input are staged: what leaves room for two blocks where the rows of most matrices fit so.
inline int plan_stage(int fixed_bytes, int row_values, double average_rows) {
  const double usual = 1 + average_rows + 1.5 * std::sqrt(average_rows);
  const int wanted = static_cast<int>(std::min<double>(usual, mma_rows)) * row_values;
  const int two = (shared_room(2) - fixed_bytes) / 2, one = (shared_room(1) - fixed_bytes) / 2;
  return std::min(wanted <= two ? two : one, mma_rows * row_values) / 8 * 8;
}

/// Launches as many blocks as fit at once; each takes its share of what the router left.
template <class Codec>
void launch_mma(ProductJob job, double average_rows, cudaStream_t stream) {
  constexpr int few_rows = 16, chunks_of_warp = 3;
  const StoredView& w = job.weight;
  MmaShape shape;
  shape.chunks = static_cast<int>(ceil_div(w.tiling.col_tiles * Codec::cols, Chunk<Codec>::cols));
  // With few rows, warps share long rows of the matrix; with many, warps side by side share the staged rows.
  while (average_rows <= few_rows && 2 << shape.along_shift <= mma_warps &&
         shape.chunks >> (shape.along_shift + 1) >= chunks_of_warp)
    ++shape.along_shift;
  while (w.group >> shape.group_shift > 1) ++shape.group_shift;
  shape.by_16_bytes = job.in_stride % 8 == 0 && w.cols % 8 == 0 && w.lead % 8 == 0 &&
                      reinterpret_cast<std::uintptr_t>(job.in) % 16 == 0;
  job.row_items = static_cast<int>(w.tiling.row_tiles);
  const int padded = shape.chunks * Chunk<Codec>::cols, batch = Chunk<Codec>::cols << shape.along_shift;
  const int sums = shape.along_shift > 0 ? mma_warps * mma_rows * sum_stride * 4 : 0;
  const int list = job.spans ? (job.max_slots + 1) * 8 : 0;
  const int fixed = mma_warps * ring_depth * Chunk<Codec>::bytes + sums + mma_rows * 4 + list;
  shape.stage_values = plan_stage(fixed, padded + Codec::stage_pad, average_rows);
  job.cap = std::min(mma_rows, shape.stage_values / (std::min(batch, padded) + Codec::stage_pad));
  divide_rows(job);
  launch_persistent(multiply<Codec>, job, {mma_threads, fixed + shape.stage_values * 2, stream}, shape);
}

}  // namespace specstep::cuda
