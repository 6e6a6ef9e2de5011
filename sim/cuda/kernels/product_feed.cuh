// The stream of a warp's loads from stored matrices.
#pragma once

#include "sim/cuda/kernels/product_codec.cuh"
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
      keep(load_once_if(inside, values_ + s * tile_step * 2), into.words);
      keep(load_once_if(inside, lower_ + s * tile_step * 2), into.words + 4);
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

}  // namespace specstep::cuda
