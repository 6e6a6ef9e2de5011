// Products of few rows on tensor cores. The weights are the operand of 16 rows, the tokens that of 8 columns, so one
// token costs one column. Each warp keeps a ring of loads in flight; since it runs on into the next item of its block,
// the memory never waits for a row to be staged or a sum to be made.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/cuda/kernels/product_formats.h"
#include "sim/cuda/kernels/product_stage.cuh"

namespace specstep::cuda {

using Sums = float[mma_rows / 8][4];  // of a warp's 16 weight rows and up to 16 tokens

__device__ inline void mma_16816(float (&d)[4], const std::uint32_t (&a)[4], uint2 b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

/// sums += tile tokens. Products of a scale group are summed first and scaled once, in fp32. `tokens`: staged values of
/// this thread's token of each fragment, from the tile's first column on; the second fragment may be without tokens.
template <class Codec>
__device__ void multiply_tile(const RawTile<Codec>& tile, const __nv_bfloat16* const (&tokens)[mma_rows / 8], bool both,
                              bool scaled, Sums& sums) {
  constexpr int each = Codec::steps_of_scale;
  Sums part = {};
#pragma unroll
  for (int step = 0; step < RawTile<Codec>::steps; ++step) {
    std::uint32_t a[4];
    Codec::unpack(tile.words, step, a);
    Sums& into = each > 0 ? part : sums;
    mma_16816(into[0], a, *reinterpret_cast<const uint2*>(tokens[0] + step * Codec::step_cols));
    if (both) mma_16816(into[1], a, *reinterpret_cast<const uint2*>(tokens[1] + step * Codec::step_cols));
    if constexpr (each > 0) {
      if ((step + 1) % each != 0) continue;
      const float2 scale = scaled ? Codec::scale(tile.scale[step / each]) : float2{1, 1};
      for (int j = 0; j < mma_rows / 8; ++j)
        for (int i = 0; i < 4; ++i) {
          sums[j][i] = fmaf(i < 2 ? scale.x : scale.y, part[j][i], sums[j][i]);
          part[j][i] = 0;
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

/// Which results a warp's sums are: places [first, first + rows), one row of tiles.
struct SumPlace {
  int first, rows, row_tile;
};

/// Writes a warp's sums. Where warps share a row of tiles, theirs are added in the order of the warps: the same bits in
/// every run.
template <int along_k>
__device__ void write_sums(const ProductJob& job, const BlockWork& work, const Sums& sums, float* shared,
                           const SumPlace& place) {
  const int row_begin = place.row_tile * tile_rows;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  if constexpr (along_k > 1) __syncthreads();  // earlier sums have been read
  for (int j = 0; j < mma_rows / 8; ++j)
    for (int i = 0; i < 4; ++i) {
      const int token = 8 * j + lane % 4 * 2 + i % 2, row = lane / 4 + i / 2 * 8;
      if (token >= place.rows) continue;
      if constexpr (along_k > 1)
        shared[(warp * mma_rows + token) * sum_stride + row] = sums[j][i];
      else if (row_begin + row < job.weight.rows)
        put_result(job, work.pair_at(place.first + token), row_begin + row, sums[j][i]);
    }
  if constexpr (along_k > 1) {
    static_assert(along_k == mma_warps && mma_threads == mma_rows * tile_rows);
    __syncthreads();
    const int token = static_cast<int>(threadIdx.x) / tile_rows, row = static_cast<int>(threadIdx.x) % tile_rows;
    if (token >= place.rows || row_begin + row >= job.weight.rows) return;
    float sum = 0;
    for (int w = 0; w < mma_warps; ++w) sum += shared[(w * mma_rows + token) * sum_stride + row];
    put_result(job, work.pair_at(place.first + token), row_begin + row, sum);
  }
}

/// along_k: warps that share 16 rows of the matrix; the others stand side by side.
template <class Codec, int along_k>
__global__ void __launch_bounds__(mma_threads, Codec::blocks) multiply(const ProductJob job, const MmaShape shape) {
  extern __shared__ __align__(16) unsigned char shared[];
  auto* totals = reinterpret_cast<float*>(shared + shape.stage_values * 2);
  auto* list = reinterpret_cast<int2*>(totals + (along_k > 1 ? mma_warps * mma_rows * sum_stride : 0));
  const BlockWork work(job, list);
  Feed<Codec, along_k> feed(job, shape, work);
  RawTile<Codec> ring[ring_depth];
#pragma unroll
  for (int s = 0; s < ring_depth; ++s) feed.load(ring[s], s);
  feed.advance();

  using Stream = Feed<Codec, along_k>;
  const int padded = static_cast<int>(job.weight.tiling.col_tiles) * Codec::cols, lane = Stream::lane();
  const bool scaled = Codec::always_scaled || job.weight.group > 0;
  Stage stage(job, shape, work, reinterpret_cast<__nv_bfloat16*>(shared));
  for (int i = work.begin(); i < work.end(); ++i) {
    const ProductItem item = work.at(i);
    const int row_tile = Stream::row_tile(item.stretch);
    const int limit = row_tile < job.weight.tiling.row_tiles ? padded : 0;
    for (int first = item.first; first < item.end; first += job.cap) {
      const int rows = min(job.cap, item.end - first);
      stage.plan(rows, Stream::batch_cols, padded);
      Sums sums = {};
      for (int from = 0; from < padded; from += stage.cols()) {
        stage.fetch(first, rows, from, padded);
        // Columns of a fragment without a token repeat the last one's; their sums are not written.
        const __nv_bfloat16* values = stage.values() + Stream::first_col() + lane % 4 * Codec::thread_cols;
        const __nv_bfloat16* token_0 = values + min(lane / 4, rows - 1) * stage.stride();
        const __nv_bfloat16* token_1 = values + min(8 + lane / 4, rows - 1) * stage.stride();
        const int until = min(from + stage.cols(), padded);
        for (int col = from; col < until; col += Stream::batch_cols) {
#pragma unroll
          for (int s = 0; s < ring_depth; ++s) {
            const int on = s * Stream::tile_step;
            if (col + Stream::first_col() + on < limit)
              multiply_tile<Codec>(ring[s], {token_0 + on, token_1 + on}, rows > 8, scaled, sums);
            feed.load(ring[s], s);
          }
          feed.advance();
          token_0 += Stream::batch_cols, token_1 += Stream::batch_cols;
        }
      }
      write_sums<along_k>(job, work, sums, totals, {first, rows, row_tile});
    }
  }
}

/// Launches as many blocks as fit at once; each takes its share of what the router left.
template <class Codec, int along_k>
void launch_mma(ProductJob job, cudaStream_t stream) {
  constexpr int batch_cols = along_k * ring_depth * Codec::cols;
  const StoredView& w = job.weight;
  const int padded = static_cast<int>(w.tiling.col_tiles) * Codec::cols;
  job.cap = std::min(mma_rows, most_staged / (std::min(batch_cols, padded) + stage_pad));
  if (!job.spans) job.max_slots = static_cast<int>(ceil_div(job.dense_rows, job.cap));
  job.row_items = static_cast<int>(ceil_div(w.tiling.row_tiles, mma_warps / along_k));
  MmaShape shape;
  shape.stage_values = std::min(most_staged, job.cap * (padded + stage_pad));
  shape.batches = static_cast<int>(ceil_div(w.tiling.col_tiles, along_k * ring_depth));
  while (w.group >> shape.group_shift > 1) ++shape.group_shift;
  shape.by_16_bytes = job.in_stride % 8 == 0 && w.cols % 8 == 0 && w.lead % 8 == 0 &&
                      reinterpret_cast<std::uintptr_t>(job.in) % 16 == 0;
  const int sums = along_k > 1 ? mma_warps * mma_rows * sum_stride * 4 : 0;
  const int list = job.spans ? (job.max_slots + 1) * 8 : 0;
  launch_persistent(multiply<Codec, along_k>, job, {mma_threads, shape.stage_values * 2 + sums + list, stream}, shape);
}

template <class Codec>
void launch_mma(const ProductJob& job, bool split_k, cudaStream_t stream) {
  split_k ? launch_mma<Codec, mma_warps>(job, stream) : launch_mma<Codec, 1>(job, stream);
}

}  // namespace specstep::cuda
