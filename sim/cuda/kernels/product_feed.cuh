// The stream of a warp's copies from stored matrices into its ring in shared memory.
#pragma once

#include "sim/cuda/kernels/product_shape.cuh"
#include "sim/cuda/kernels/product_work.cuh"

namespace specstep::cuda {

/// The stream of a warp's chunks over all items of its block, in the order in which they are used: by stretch, row of
/// tiles, rows of the input, columns.
template <class Codec>
class Feed {
 public:
  __device__ Feed(const ProductJob& job, const MmaShape& shape, const BlockWork& work, const void* ring)
      : job_(job),
        shape_(shape),
        work_(work),
        place_(shape),
        ring_(static_cast<std::uint32_t>(__cvta_generic_to_shared(ring))),
        next_(work.begin()),
        teams_(shape.warps >> shape.along_shift),
        phase_(static_cast<int>(job.weight.phase - job.weight.lead)) {
    open_stretch();
  }

  /// Begins to copy the next chunk, if there is one, into a place of the ring that nobody reads any more. Counts as a
  /// group of copies either way.
  __device__ void load(int place) {
    if (chunk_ < shape_.chunks) {
      const std::uint32_t to = ring_ + place * Chunk<Codec>::bytes;
      if constexpr (Codec::plain)
        copy_rows(to);
      else
        copy_tiles(to);
      advance();
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

  /// Until the oldest chunk lies in the ring, for all threads of the warp.
  __device__ static void wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Codec::ring_depth - 1) : "memory");
    __syncwarp();
  }

 private:
  static constexpr int value_bytes = Chunk<Codec>::value_bytes;
  static constexpr int scale_bytes_of_group = static_cast<int>(sizeof(typename Codec::Scale)) * 8;

  /// Rows of 128 bytes, of which every other is turned by 64 bytes: a fragment's reads then meet all banks.
  __device__ void copy_rows(std::uint32_t to) const {
    const int col = chunk_ * Chunk<Codec>::cols + place_.lane % 8 * 8, upper = place_.lane / 8;
    const bool inside = col < job_.weight.cols;
    const int turned = (place_.lane % 8) ^ (upper % 2 * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      // Rows behind the last repeat it; their sums are not written.
      const int row = min(row_ * tile_rows + upper + 4 * i, static_cast<int>(job_.weight.rows) - 1);
      const std::uint8_t* from = values_ + (static_cast<std::int64_t>(row) * job_.weight.cols + (inside ? col : 0)) * 2;
      copy_16_if(inside, to + (upper + 4 * i) * 128 + turned * 16, from);
    }
  }

  /// Tiles and scales behind the last are zeros.
  __device__ void copy_tiles(std::uint32_t to) const {
    constexpr int all = value_bytes / tile_bytes;
    const int tiles = static_cast<int>(job_.weight.tiling.col_tiles) - chunk_ * all;
    const std::uint32_t own = to + place_.lane * 16;
    if (tiles >= all) {
#pragma unroll
      for (int i = 0; i < all; ++i) copy_16(own + i * tile_bytes, values_ + i * tile_bytes);
    } else {
#pragma unroll
      for (int i = 0; i < all; ++i)
        copy_16_if(i < tiles, own + i * tile_bytes, values_ + (i < tiles ? i : 0) * tile_bytes);
    }
    if (!Codec::always_scaled && job_.weight.group == 0) return;
    constexpr int group_pieces = static_cast<int>(sizeof(typename Codec::Scale)) / 2;  // of 16 bytes
    const int col = chunk_ * Chunk<Codec>::cols + phase_;
    const int first = col >> shape_.group_shift, last = (col + Chunk<Codec>::cols - 1) >> shape_.group_shift;
    if (place_.lane >= (last - first + 1) * group_pieces) return;
    const bool some = first + place_.lane / group_pieces < static_cast<int>(job_.weight.tiling.groups);
    copy_16_if(some, own + value_bytes, scales_ + (some ? first * group_pieces + place_.lane : 0) * 16);
  }

  /// On to the next chunk of the row of tiles, to the next rows of the input, the next row of tiles, or the next slot.
  __device__ void advance() {
    chunk_ += 1 << shape_.along_shift;
    if constexpr (!Codec::plain) values_ += value_bytes << shape_.along_shift;
    if (chunk_ < shape_.chunks) return;
    first_ += job_.cap;
    if (first_ >= now_.end) {
      row_ += teams_;
      if (row_ >= now_.last) return open_stretch();
      first_ = now_.first;
      row_values_ += value_step_, scales_ += scale_step_;
    }
    chunk_ = place_.member, values_ = row_values_;
  }

  __device__ void open_stretch() {
    do {
      chunk_ = shape_.chunks;
      if (next_ >= work_.end()) return;
      now_ = work_.from(next_);
      next_ += now_.last - now_.begin;
      row_ = now_.begin + place_.team;
    } while (row_ >= now_.last);
    const StoredView& w = job_.weight;
    row_values_ = static_cast<const std::uint8_t*>(w.values);
    if constexpr (Codec::plain) {
      row_values_ += now_.expert * w.rows * w.cols * 2;
    } else {
      const std::int64_t tiles = now_.expert * w.tiling.row_tiles + row_;
      row_values_ += tiles * w.tiling.col_tiles * tile_bytes + place_.member * value_bytes + place_.lane * 16;
      scales_ = static_cast<const std::uint8_t*>(w.scales) + tiles * w.tiling.groups * scale_bytes_of_group;
      value_step_ = teams_ * static_cast<int>(w.tiling.col_tiles) * tile_bytes;
      scale_step_ = teams_ * static_cast<int>(w.tiling.groups) * scale_bytes_of_group;
    }
    first_ = now_.first, chunk_ = place_.member, values_ = row_values_;
  }

  const ProductJob& job_;
  const MmaShape& shape_;
  const BlockWork& work_;
  const WarpPlace place_;
  const std::uint8_t* row_values_ = nullptr;
  const std::uint8_t* values_ = nullptr;
  const std::uint8_t* scales_ = nullptr;
  Stretch now_{};
  std::uint32_t ring_;
  int next_, teams_, phase_, row_ = 0, first_ = 0, chunk_ = 0, value_step_ = 0, scale_step_ = 0;
};

}  // namespace specstep::cuda
