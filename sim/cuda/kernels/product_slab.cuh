// Products of many rows: what a block copies of the matrix and of its rows of the input, a slab of columns at a time.
#pragma once

#include "sim/cuda/kernels/product_tile.cuh"

namespace specstep::cuda {

inline constexpr int many_warps = 8;
inline constexpr int many_tiles = 2 * many_warps;  // row tiles of a block: two a warp
inline constexpr int many_rows = 32;               // rows of the input at once
inline constexpr int slab_cols = 64;
inline constexpr int most_slabs = 4;  // in flight

/// What the host works out once.
struct ManyShape {
  int slabs = 0;   // of a row of tiles
  int depth = 0;   // of the ring
  int blocks = 0;  // of row tiles, in a matrix
  int group_shift = 0;
};

/// A slab in shared memory: of each row tile its values and behind them their scales, then rows of the input.
template <class Codec>
struct Slab {
  static constexpr int value_bytes = tile_rows * slab_cols * Codec::bits / 8;
  static constexpr int scales = Codec::scale_cols > 0 ? slab_cols / Codec::scale_cols : 0;  // most groups in it
  static constexpr int group_pieces = static_cast<int>(sizeof(typename Codec::Scale)) / 2;  // of 16 bytes
  static constexpr int tile_stride = value_bytes + scales * group_pieces * 16;
  static constexpr int row_stride = slab_cols + Codec::stage_pad;  // values
  static constexpr int bytes = many_tiles * tile_stride + many_rows * row_stride * 2;
  static_assert(scales * group_pieces <= 16 && bytes % 128 == 0 && many_rows * 8 == many_warps * 32);
};

/// Rows of the input and of the matrix that a block multiplies at once.
struct ManyItem {
  int expert, first, rows;  // places of pair_of
  int block;                // of row tiles
};

/// The items of one block: neighbours in the order of slots, blocks of row tiles, stretches of rows.
class ManyWork {
 public:
  static int list_bytes(const ProductJob& job) { return job.spans ? (job.max_slots + 1) * 12 : 0; }

  /// Called by all threads. `list` is shared memory of list_bytes.
  __device__ ManyWork(const ProductJob& job, const ManyShape& shape, int2* list)
      : job_(job), list_(list), begins_(reinterpret_cast<int*>(list + job.max_slots + 1)), blocks_(shape.blocks) {
    if (job.spans) {
      const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
      for (int i = thread; i <= job.max_slots; i += threads) list[i] = job.spans[i];
      __syncthreads();
      slots_ = list[0].x;
      if (thread < 32) count_stretches(thread);
      __syncthreads();
    }
    const int stretches = job.spans ? begins_[slots_] : ceil_div_int(job.dense_rows);
    const unsigned items = static_cast<unsigned>(stretches) * static_cast<unsigned>(blocks_);
    const unsigned each = items / gridDim.x, more = items - each * gridDim.x;
    begin_ = static_cast<int>(each * blockIdx.x + min(blockIdx.x, more));
    count_ = static_cast<int>(each + (blockIdx.x < more ? 1 : 0));
  }
  __device__ int count() const { return count_; }

  /// A place among the items.
  struct At {
    int slot, block, stretch, stretches, first, last, expert;
  };
  __device__ At begin() const {
    At at{};
    if (count_ == 0) return at;
    for (int low = 0, high = slots_; low < high;) {  // the last slot that begins no later
      const int middle = (low + high) / 2;
      if (begins_of(middle) * blocks_ <= begin_)
        at.slot = middle, low = middle + 1;
      else
        high = middle;
    }
    open(at);
    const int in_slot = begin_ - begins_of(at.slot) * blocks_;
    at.block = in_slot / at.stretches, at.stretch = in_slot - at.block * at.stretches;
    return at;
  }
  __device__ void advance(At& at) const {
    if (++at.stretch < at.stretches) return;
    at.stretch = 0;
    if (++at.block < blocks_) return;
    at.block = 0;
    if (++at.slot < slots_) open(at);
  }
  __device__ ManyItem item(const At& at) const {
    const int first = at.first + at.stretch * many_rows;
    return {at.expert, first, min(many_rows, at.last - first), at.block};
  }
  __device__ int pair_at(int place) const { return job_.pair_of ? job_.pair_of[place] : place; }

 private:
  __device__ static int ceil_div_int(int rows) { return (rows + many_rows - 1) / many_rows; }
  __device__ int begins_of(int slot) const { return job_.spans ? begins_[slot] : 0; }
  __device__ int first_of(int slot) const { return slot < slots_ ? list_[1 + slot].y : list_[0].y; }

  __device__ void open(At& at) const {
    at.expert = job_.spans ? list_[1 + at.slot].x : 0;
    at.first = job_.spans ? first_of(at.slot) : 0;
    at.last = job_.spans ? first_of(at.slot + 1) : job_.dense_rows;
    at.stretches = ceil_div_int(at.last - at.first);
  }

  /// begins_[slot]: stretches of earlier slots. By one warp.
  __device__ void count_stretches(int lane) {
    int before = 0;
    for (int slot = lane; slot - lane < slots_; slot += 32) {
      const int own = slot < slots_ ? ceil_div_int(first_of(slot + 1) - first_of(slot)) : 0;
      int sum = own;
      for (int step = 1; step < 32; step *= 2) {
        const int other = __shfl_up_sync(~0U, sum, step);
        if (lane >= step) sum += other;
      }
      if (slot < slots_) begins_[slot] = before + sum - own;
      before += __shfl_sync(~0U, sum, 31);
    }
    if (lane == 0) begins_[slots_] = before;
  }

  const ProductJob& job_;
  const int2* list_;
  int* begins_;
  int blocks_, slots_ = 1, begin_ = 0, count_ = 0;
};

/// The stream of a block's copies, a slab after the other over all its items.
template <class Codec>
class SlabFeed {
 public:
  /// Called by all threads.
  __device__ SlabFeed(const ProductJob& job, const ManyShape& shape, const ManyWork& work, const void* ring)
      : job_(job),
        shape_(shape),
        work_(work),
        ring_(static_cast<std::uint32_t>(__cvta_generic_to_shared(ring))),
        lane_(static_cast<int>(threadIdx.x) % 32),
        warp_(static_cast<int>(threadIdx.x) / 32),
        left_(work.count()),
        at_(work.begin()) {
    if (left_ == 0) return;
    foresee();
    open();
  }

  /// Begins to copy the next slab, if there is one, to a place of the ring. Counts as a group of copies either way.
  __device__ void load(int place) {
    if (left_ > 0) {
      const std::uint32_t to = ring_ + place * Slab<Codec>::bytes;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const std::uint32_t tile = to + (2 * warp_ + i) * Slab<Codec>::tile_stride;
        if constexpr (Codec::plain)
          copy_rows(tile, i);
        else
          copy_tile(tile, i);
      }
      if constexpr (Codec::scale_cols > 0) copy_scales(to);
      copy_inputs(to + many_tiles * Slab<Codec>::tile_stride);
      if (++slab_ == shape_.slabs && --left_ > 0) open();
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  }

 private:
  static constexpr int value_bytes = Slab<Codec>::value_bytes;

  /// As Feed::copy_rows.
  __device__ void copy_rows(std::uint32_t to, int which) const {
    const int col = slab_ * slab_cols + lane_ % 8 * 8, upper = lane_ / 8;
    const bool inside = col < job_.weight.cols;
    const int turned = (lane_ % 8) ^ (upper % 2 * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int row = min(tile_[which] * tile_rows + upper + 4 * i, static_cast<int>(job_.weight.rows) - 1);
      const std::uint8_t* from = values_ + (static_cast<std::int64_t>(row) * job_.weight.cols + (inside ? col : 0)) * 2;
      copy_16_if(inside, to + (upper + 4 * i) * 128 + turned * 16, from);
    }
  }

  __device__ void copy_tile(std::uint32_t to, int which) const {
    constexpr int all = value_bytes / tile_bytes;
    const int col_tiles = static_cast<int>(job_.weight.tiling.col_tiles);
    const std::uint8_t* from = values_ + static_cast<std::int64_t>(tile_[which]) * col_tiles * tile_bytes + lane_ * 16;
#pragma unroll
    for (int i = 0; i < all; ++i) {
      const int tile = slab_ * all + i;
      const bool some = tile < col_tiles;
      copy_16_if(some, to + lane_ * 16 + i * tile_bytes, from + (some ? tile : 0) * tile_bytes);
    }
  }

  /// Half a warp for the scales of each of its row tiles.
  __device__ void copy_scales(std::uint32_t to) const {
    if (!Codec::always_scaled && job_.weight.group == 0) return;
    constexpr int pieces = Slab<Codec>::group_pieces;
    const int col = slab_ * slab_cols + static_cast<int>(job_.weight.phase - job_.weight.lead);
    const int first = col >> shape_.group_shift, last = (col + slab_cols - 1) >> shape_.group_shift;
    const int piece = lane_ % 16, which = lane_ / 16;
    if (piece >= (last - first + 1) * pieces) return;
    const int groups = static_cast<int>(job_.weight.tiling.groups);
    const bool some = first + piece / pieces < groups;
    const std::uint8_t* from =
        scales_ + (static_cast<std::int64_t>(which == 0 ? tile_[0] : tile_[1]) * groups * pieces +
                   (some ? first * pieces + piece : 0)) *
                      16;
    copy_16_if(some, to + (2 * warp_ + which) * Slab<Codec>::tile_stride + value_bytes + piece * 16, from);
  }

  /// Rows behind the last up to a whole fragment repeat it; their sums are not written.
  __device__ void copy_inputs(std::uint32_t to) const {
    const int piece = lane_ % 8, c = slab_ * slab_cols + piece * 8 - static_cast<int>(job_.weight.lead);
    const bool inside = c >= 0 && c < job_.weight.cols;
    const int row = static_cast<int>(threadIdx.x) / 8;
    if (row < padded_rows_)
      copy_16_if(inside, to + (row * Slab<Codec>::row_stride + piece * 8) * 2, input_ + (inside ? c : 0));
  }

  /// Asks for the pair of the item that is opened next.
  __device__ void foresee() {
    next_ = work_.item(at_);
    pair_ = work_.pair_at(next_.first + min(static_cast<int>(threadIdx.x) / 8, next_.rows - 1));
  }

  __device__ void open() {
    const ManyItem now = next_;
    slab_ = 0;
    padded_rows_ = (now.rows + 7) / 8 * 8;
    input_ = static_cast<const __nv_bfloat16*>(job_.in) + pair_ / job_.share * job_.in_stride;
    // Tiles behind the last repeat it; their sums are not written.
    for (int i = 0; i < 2; ++i)
      tile_[i] = min(now.block * many_tiles + 2 * warp_ + i, static_cast<int>(job_.weight.tiling.row_tiles) - 1);
    const StoredView& w = job_.weight;
    values_ = static_cast<const std::uint8_t*>(w.values);
    if constexpr (Codec::plain) {
      values_ += now.expert * w.rows * w.cols * 2;
    } else {
      const std::int64_t tiles = now.expert * w.tiling.row_tiles;
      values_ += tiles * w.tiling.col_tiles * tile_bytes;
      scales_ = static_cast<const std::uint8_t*>(w.scales) + tiles * w.tiling.groups * Slab<Codec>::group_pieces * 16;
    }
    if (left_ == 1) return;
    work_.advance(at_);
    foresee();
  }

  const ProductJob& job_;
  const ManyShape& shape_;
  const ManyWork& work_;
  std::uint32_t ring_;
  int lane_, warp_, left_;
  ManyWork::At at_;
  ManyItem next_{};
  const std::uint8_t* values_ = nullptr;
  const std::uint8_t* scales_ = nullptr;
  const __nv_bfloat16* input_ = nullptr;
  int pair_ = 0, tile_[2] = {};
  int slab_ = 0, padded_rows_ = 0;
};

}  // namespace specstep::cuda
