// Weights on their way to a warp that multiplies, in bulk copies.
#pragma once

#include "sim/cuda/kernels/product_bulk.cuh"
#include "sim/cuda/kernels/product_shape.cuh"
#include "sim/cuda/kernels/product_work.cuh"

namespace specstep::cuda {

inline constexpr int most_chunk_tiles = 8;  // neighbours of a row of tiles that are copied at once

/// What the host works out once.
struct StreamShape {
  int warps = 0;
  int along_shift = 0;  // log2 of the warps that share a row of tiles: a team
  int teams_shift = 0;  // log2 of the teams
  int tiles = 0;        // of a row
  int chunk_tiles = 0;  // of a chunk, at most
  int depth = 0;        // chunks of a warp in flight
  int group_shift = 0;  // log2 of a scale's columns
  bool scaled = true;   // by more than one scale for the whole matrix
  int staged_rows = 0;  // rows of the input that fit
  int sum_slots = 0;    // rows of tiles whose sums a team may have handed in and not added
  int add_behind = 0;   // rows of tiles that a member begins before it adds one
  int chunk_bytes = 0;
  int value_step = 0, scale_step = 0;  // bytes from a row of tiles of a team to its next
  bool settled = false;
  bool pairs_fit = false;  // neighbouring values of the output may be written together
};

/// Where a warp stands, and the columns of tiles of each row that it takes. Not of one size in all warps, but always
/// the same.
struct StreamPlace {
  int lane, warp, team, member;
  int begin, end;  // of its tiles

  __device__ explicit StreamPlace(const StreamShape& shape)
      : lane(static_cast<int>(threadIdx.x) % 32),
        warp(__shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0)),
        team(warp >> shape.along_shift),
        member(warp & ((1 << shape.along_shift) - 1)),
        begin((member * shape.tiles) >> shape.along_shift),
        end(((member + 1) * shape.tiles) >> shape.along_shift) {}
};

/// A warp's chunks: its part of each row of tiles, in one piece or several, over all items of its block, in the order
/// in which they are used: by stretch, rows of the input, row of tiles, columns. `depth` of them lie in a ring, each
/// with a barrier that is passed when it is there.
template <class Codec>
class Supply {
 public:
  /// Called by all threads, which a barrier of the block holds up behind it; `ring`: address of shared memory of
  /// bytes(shape).
  __device__ Supply(const ProductJob& job, const StreamShape& shape, const BlockWork& work, const StreamPlace& place,
                    std::uint32_t ring)
      : job_(job),
        shape_(shape),
        work_(work),
        place_(place),
        ring_(ring + place_.warp * shape.depth * shape.chunk_bytes),
        barriers_(ring + shape.warps * shape.depth * shape.chunk_bytes + place_.warp * shape.depth * 8) {
    if (place_.lane == 0) {
      for (int i = 0; i < shape.depth; ++i) init_barrier(barriers_ + i * 8, 1);
      publish_barriers();
    }
    open_chunk(place_.begin);
  }
  __host__ __device__ static int bytes(const StreamShape& shape) {
    return static_cast<int>(ceil_div(shape.warps * shape.depth * (shape.chunk_bytes + 8), 16)) * 16;
  }
  static constexpr int group_bytes = static_cast<int>(sizeof(typename Codec::Scale)) * 8;  // of a row of tiles

  /// Begins, once the work is known. Called by whole warps, as all below.
  __device__ void open() {
    next_ = work_.begin();
    open_stretch();
  }
  /// The first chunks, from the one for place `begin` of the ring on.
  __device__ void fill(int begin, int end) {
    for (int i = begin; i < end; ++i) load<true>(i);
  }
  /// Begins, and fills the ring, with the first of the block's stretches alone: as soon as that is known.
  __device__ void open_first() {
    next_ = work_.begin();
    if (next_ == work_.end()) return;
    take(work_.first());
    some_ = left_ > 0;
    for (; filled_ < shape_.depth && left_ > 0; ++filled_) load<false>(filled_);
  }
  /// Behind that, once all of the work is known.
  __device__ void go_on() {
    if (left_ == 0) some_ ? open_next() : open_stretch();
    fill(filled_, shape_.depth);
  }
  /// The oldest chunk's address, once it is there.
  __device__ std::uint32_t wait() const {
    await_barrier(barriers_ + turn_ * 8, parity_);
    return ring_ + turn_ * shape_.chunk_bytes;
  }
  /// All threads of the warp have used it, which takes what they read: the next may take its place.
  __device__ void pass() {
    __syncwarp();
    load<true>(turn_);
    if (++turn_ == shape_.depth) turn_ = 0, parity_ ^= 1;
  }

 private:
  /// `all_known`: of the work, not the first stretch alone.
  template <bool all_known>
  __device__ void load(int place) {
    if (left_ == 0) return;
    if (elected()) {
      const std::uint32_t to = ring_ + place * shape_.chunk_bytes, barrier = barriers_ + place * 8;
      expect_bytes(barrier, value_bytes_ + scale_bytes_);
      const Landing landing{barrier, once_policy()};
      copy_once(to, values_ + tile_ * tile_bytes, value_bytes_, landing);
      if (Codec::always_scaled || scale_bytes_ > 0)
        copy_once(to + shape_.chunk_tiles * tile_bytes, scales_ + group_bytes_before_, scale_bytes_, landing);
    }
    if (tile_ > place_.begin || place_.end - place_.begin > shape_.chunk_tiles) {
      const int next = tile_ + shape_.chunk_tiles;
      open_chunk(next < place_.end ? next : place_.begin);
      if (next < place_.end) return;
    }
    if (--left_ > 0)
      values_ += shape_.value_step, scales_ += shape_.scale_step;
    else if (all_known)
      open_next();
  }

  __device__ void open_chunk(int tile) {
    tile_ = tile;
    const int tiles = min(shape_.chunk_tiles, place_.end - tile);
    const int col = tile * Codec::cols + static_cast<int>(job_.weight.phase - job_.weight.lead);
    const int group = col >> shape_.group_shift, last = (col + tiles * Codec::cols - 1) >> shape_.group_shift;
    value_bytes_ = tiles * tile_bytes, scale_bytes_ = shape_.scaled ? (last - group + 1) * group_bytes : 0;
    group_bytes_before_ = group * group_bytes;
  }

  /// The next rows of the input or the next stretch.
  __device__ void open_next() {
    const Stretch now = work_.from(item_);
    first_ += job_.cap;
    first_ < now.end ? open_rows(now) : open_stretch();
  }

  __device__ void open_stretch() {
    do {
      left_ = 0;
      if (next_ >= work_.end()) return;
      take(work_.from(next_));
    } while (left_ == 0);
  }

  __device__ void take(const Stretch& now) {
    item_ = next_, first_ = now.first;
    next_ += now.last - now.begin;
    open_rows(now);
  }

  __device__ void open_rows(const Stretch& now) {
    const StoredView& w = job_.weight;
    const int row = now.begin + place_.team, teams = 1 << shape_.teams_shift;
    left_ = (max(now.last - row, 0) + teams - 1) >> shape_.teams_shift;
    const std::int64_t tiles = now.expert * w.tiling.row_tiles + row;
    values_ = static_cast<const std::uint8_t*>(w.values) + tiles * w.tiling.col_tiles * tile_bytes;
    scales_ = static_cast<const std::uint8_t*>(w.scales) + tiles * w.tiling.groups * group_bytes;
  }

  const ProductJob& job_;
  const StreamShape& shape_;
  const BlockWork& work_;
  const StreamPlace& place_;
  const std::uint32_t ring_, barriers_;
  const std::uint8_t* values_ = nullptr;
  const std::uint8_t* scales_ = nullptr;
  int item_ = 0, next_ = 0, first_ = 0, left_ = 0;  // left_: rows of tiles, of those of the stretch
  int tile_ = 0, value_bytes_ = 0, scale_bytes_ = 0, group_bytes_before_ = 0;
  int turn_ = 0, parity_ = 0, filled_ = 0;
  bool some_ = false;  // rows of tiles of the first stretch are this team's
};

}  // namespace specstep::cuda
