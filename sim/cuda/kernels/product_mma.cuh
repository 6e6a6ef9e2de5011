// Products of few rows on tensor cores. The weights are the operand of 16 rows, the tokens that of 8 columns, so one
// token costs one column. Each warp keeps a ring of loads in flight; since it runs on into the next item of its block,
// the memory never waits for a row to be staged or a sum to be made.
#pragma once

#include <algorithm>
#include <cstdint>

#include "comm/cuda/check.h"
#include "sim/cuda/kernels/product_codec.cuh"
#include "sim/cuda/kernels/product_formats.h"
#include "sim/cuda/kernels/product_work.cuh"

namespace specstep::cuda {

inline constexpr int mma_warps = 8, mma_threads = 32 * mma_warps;
inline constexpr int mma_rows = 16;   // tokens at once: two fragments of eight
inline constexpr int ring_depth = 4;  // tiles of a warp in flight
inline constexpr int stage_pad = 16;  // values behind each staged row: eight-byte reads of four rows hit all banks
inline constexpr int most_staged = 28 * 1024;  // values: three blocks on a multiprocessor of 227 KiB
inline constexpr int sum_stride = 20;          // floats from token to token: a fragment's writes hit all banks

/// What the host works out once.
struct MmaShape {
  int stage_values = 0;
  int batches = 0;  // rounds of the ring over a row of the matrix
  int group_shift = 0;
  bool by_16_bytes = false;  // rows of the input may be copied so
};

/// Scales of rows g and g + 8, loaded where it stands: left to itself the compiler moves loads towards their use.
__device__ inline void load_scales(const std::uint16_t* at, std::uint16_t& v) {
  asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(v) : "l"(at));
}
__device__ inline void load_scales(const std::uint32_t* at, std::uint32_t& v) {
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(at));
}
__device__ inline void load_scales(const float2* at, float2& v) {
  asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "l"(at));
}

/// A thread's part of one tile.
template <class Codec>
struct RawTile {
  static constexpr int steps = Codec::cols / 16;
  static constexpr int scales = Codec::steps_of_scale > 0 ? steps / Codec::steps_of_scale : 0;
  std::uint32_t words[4 * Codec::loads];
  typename Codec::Scale scale[scales > 0 ? scales : 1];
};

/// The stream of a warp's tiles over all items of its block, in the order in which they are used.
template <class Codec, int along_k>
class Feed {
 public:
  static constexpr int tile_step = along_k * Codec::cols;    // columns from one of a warp's tiles to the next
  static constexpr int batch_cols = ring_depth * tile_step;  // columns of one round of the ring

  __device__ Feed(const ProductJob& job, const MmaShape& shape, const BlockWork& work)
      : job_(job), shape_(shape), work_(work), item_(work.begin()) {
    open();
  }

  __device__ static int warp() { return static_cast<int>(threadIdx.x) / 32; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % 32; }
  /// First column of this warp's first tile.
  __device__ static int first_col() { return warp() % along_k * Codec::cols; }
  /// Row of tiles that this warp works on; it may lie behind the last.
  __device__ static int row_tile(int stretch) { return stretch * (mma_warps / along_k) + warp() / along_k; }

  /// Number `s` of the batch, if there is one.
  __device__ void load(RawTile<Codec>& into, int s) {
    const int col = col_ + s * tile_step;
    if (col >= limit_) return;
    if constexpr (Codec::loads == 2) {
      const bool inside = col + lane() % 4 * Codec::thread_cols < job_.weight.cols;
      keep(inside ? load_once(values_ + s * tile_step * 2) : uint4{}, into.words);
      keep(inside ? load_once(lower_ + s * tile_step * 2) : uint4{}, into.words + 4);
    } else {
      keep(load_once(values_ + s * along_k * tile_bytes), into.words);
    }
    if constexpr (RawTile<Codec>::scales > 0) {
      if (!Codec::always_scaled && job_.weight.group == 0) return;
      const int at = static_cast<int>(job_.weight.phase - job_.weight.lead) + col;
      for (int i = 0; i < RawTile<Codec>::scales; ++i)
        load_scales(scales_ + ((at + i * 16 * Codec::steps_of_scale) >> shape_.group_shift) * 8, into.scale[i]);
    }
  }

  /// On to the next batch, the next rows of the same item, or the next item.
  __device__ void advance() {
    col_ += batch_cols;
    values_ += batch_bytes;
    if constexpr (Codec::loads == 2) lower_ += batch_bytes;
    if (col_ < shape_.batches * batch_cols) return;
    first_ += job_.cap;
    if (first_ < end_) {
      col_ -= shape_.batches * batch_cols;
      values_ -= shape_.batches * batch_bytes;
      if constexpr (Codec::loads == 2) lower_ -= shape_.batches * batch_bytes;
      return;
    }
    ++item_;
    open();
  }

 private:
  static constexpr int batch_bytes = Codec::loads == 2 ? batch_cols * 2 : ring_depth * along_k * tile_bytes;

  __device__ static void keep(uint4 v, std::uint32_t* words) {
    words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
  }

  __device__ void open() {
    col_ = first_col(), limit_ = 0;
    if (item_ >= work_.end()) return;
    const ProductItem item = work_.at(item_);
    first_ = item.first, end_ = item.end;
    const StoredView& w = job_.weight;
    const int tile = row_tile(item.stretch);
    if (tile >= w.tiling.row_tiles) return;
    limit_ = static_cast<int>(w.tiling.col_tiles) * Codec::cols;
    const auto* values = static_cast<const std::uint8_t*>(w.values);
    const std::int64_t tiles = item.expert * w.tiling.row_tiles + tile;
    if constexpr (Codec::loads == 2) {
      // Rows behind the last repeat it; their sums are not written.
      const auto row_at = [&](std::int64_t row) {
        const std::int64_t from = (item.expert * w.rows + min(row, w.rows - 1)) * w.cols;
        return values + (from + col_ + lane() % 4 * Codec::thread_cols) * 2;
      };
      values_ = row_at(tile * tile_rows + lane() / 4);
      lower_ = row_at(tile * tile_rows + lane() / 4 + 8);
    } else {
      values_ = values + (tiles * w.tiling.col_tiles + warp() % along_k) * tile_bytes + lane() * 16;
      scales_ = static_cast<const typename Codec::Scale*>(w.scales) + tiles * w.tiling.groups * 8 + lane() / 4;
    }
  }

  const ProductJob& job_;
  const MmaShape& shape_;
  const BlockWork& work_;
  const std::uint8_t* values_ = nullptr;
  const std::uint8_t* lower_ = nullptr;
  const typename Codec::Scale* scales_ = nullptr;
  int item_, col_ = 0, limit_ = 0, first_ = 0, end_ = 0;
};

/// Rows of the input in shared memory, a stretch of their columns, with zeros where the matrix is padded. Columns are
/// counted from the matrix's lead on.
class Stage {
 public:
  __device__ Stage(const ProductJob& job, const MmaShape& shape, const BlockWork& work, __nv_bfloat16* values)
      : job_(job), shape_(shape), work_(work), values_(values) {}

  /// Plans for `rows` rows in batches of `batch_cols` columns out of `padded` in all.
  __device__ void plan(int rows, int batch_cols, int padded) {
    const int room = shape_.stage_values / rows - stage_pad;
    cols_ = room >= padded ? padded : min(max(1, room / batch_cols) * batch_cols, padded);
  }
  __device__ int cols() const { return cols_; }
  __device__ int stride() const { return cols_ + stage_pad; }
  __device__ const __nv_bfloat16* values() const { return values_; }

  /// Called by all threads: rows [first, first + rows), columns from `col` on. Rows that lie there whole stay.
  __device__ void fetch(int first, int rows, int col, int padded) {
    if (first == whole_) return;
    whole_ = cols_ == padded ? first : -1;
    __syncthreads();
    const int cols = min(cols_, padded - col);
    const auto* in = static_cast<const __nv_bfloat16*>(job_.in);
    const int lead = static_cast<int>(job_.weight.lead), last = static_cast<int>(job_.weight.cols);
    const int wide = shape_.by_16_bytes ? 8 : 1, pieces = cols / wide;
    for (int i = static_cast<int>(threadIdx.x); i < rows * pieces; i += mma_threads) {
      const int row = i / pieces, at = (i - row * pieces) * wide;
      const __nv_bfloat16* from = in + work_.pair_at(first + row) / job_.share * job_.in_stride;
      __nv_bfloat16* to = values_ + row * stride() + at;
      const int c = col + at - lead;
      const bool inside = c >= 0 && c < last;
      if (shape_.by_16_bytes)
        copy_16(to, inside ? from + c : from, inside);
      else
        *to = inside ? from[c] : __float2bfloat16_rn(0);
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
  }

 private:
  /// Zeros where there is nothing to copy.
  __device__ static void copy_16(__nv_bfloat16* to, const __nv_bfloat16* from, bool some) {
    asm volatile(
        "cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
        "l"(from), "r"(some ? 16 : 0)
        : "memory");
  }

  const ProductJob& job_;
  const MmaShape& shape_;
  const BlockWork& work_;
  __nv_bfloat16* values_;
  int cols_ = 0, whole_ = -1;
};

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

/// Writes the sums of rows [first, first + rows) for a row of tiles. Where warps share it, their sums are added in the
/// order of the warps: the same bits in every run.
template <int along_k>
__device__ void write_sums(const ProductJob& job, const BlockWork& work, const Sums& sums, float* shared, int first,
                           int rows, int row_tile) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  if constexpr (along_k > 1) __syncthreads();  // earlier sums have been read
  for (int j = 0; j < mma_rows / 8; ++j)
    for (int i = 0; i < 4; ++i) {
      const int token = 8 * j + lane % 4 * 2 + i % 2, row = lane / 4 + i / 2 * 8;
      if (token >= rows) continue;
      if constexpr (along_k > 1)
        shared[(warp * mma_rows + token) * sum_stride + row] = sums[j][i];
      else if (row_tile * tile_rows + row < job.weight.rows)
        put_result(job, work.pair_at(first + token), row_tile * tile_rows + row, sums[j][i]);
    }
  if constexpr (along_k > 1) {
    static_assert(along_k == mma_warps && mma_threads == mma_rows * tile_rows);
    __syncthreads();
    const int token = static_cast<int>(threadIdx.x) / tile_rows, row = static_cast<int>(threadIdx.x) % tile_rows;
    if (token >= rows || row_tile * tile_rows + row >= job.weight.rows) return;
    float sum = 0;
    for (int w = 0; w < mma_warps; ++w) sum += shared[(w * mma_rows + token) * sum_stride + row];
    put_result(job, work.pair_at(first + token), row_tile * tile_rows + row, sum);
  }
}

/// along_k: warps that share 16 rows of the matrix; the others stand side by side.
template <class Codec, int along_k>
__global__ void __launch_bounds__(mma_threads, Codec::loads == 2 ? 2 : 3)
    multiply(const ProductJob job, const MmaShape shape) {
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
      write_sums<along_k>(job, work, sums, totals, first, rows, row_tile);
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
