// Rows of the input in shared memory, in the order of fragments.
#pragma once

#include "sim/cuda/kernels/product_supply.cuh"

namespace specstep::cuda {

/// Whole rows, with zeros where the matrix is padded, columns counted from its lead on. Of each 32 columns a thread's
/// eight of two steps lie side by side: one read. As many rows as fit, from those in use on, stay for what the block
/// does next.
template <class Codec, bool by_input>
class Rows {
 public:
  /// Called by all threads, which a barrier of the block holds up behind it. `values`: address of shared memory of
  /// bytes(job, shape.staged_rows).
  __device__ Rows(const ProductJob& job, const StreamShape& shape, const BlockWork& work, const StreamPlace& place,
                  std::uint32_t values)
      : job_(job),
        shape_(shape),
        work_(work),
        place_(place),
        values_(values),
        there_(values + shape.staged_rows * stride_of(job) * 2) {
    if (threadIdx.x != 0) return;
    init_barrier(there_, shape.warps);
    publish_barriers();
  }
  /// Values from row to row.
  __host__ __device__ static int stride_of(const ProductJob& job) {
    return static_cast<int>(job.weight.tiling.col_tiles) * Codec::cols + pad;
  }
  __host__ __device__ static int bytes(const ProductJob& job, int rows) { return rows * stride_of(job) * 2 + 16; }

  /// How many rows the input has.
  __host__ __device__ static int inputs(const ProductJob& job) {
    return job.spans ? (job.pairs + job.share - 1) / job.share : job.dense_rows;
  }

  /// Address of the row of a place.
  __device__ std::uint32_t address(int place) const {
    return values_ + (by_input ? work_.pair_at(place) / job_.share : place - begin_) * stride_of(job_) * 2;
  }

  /// Begins to copy rows, those of places from `first` on or all of the input. Called by all threads, which have read
  /// the earlier ones.
  __device__ void request(int first) {
    begin_ = by_input ? 0 : first;
    end_ = by_input ? inputs(job_) : min(first + shape_.staged_rows, work_.last_place());
    pending_ = true;
    if (!elected()) return;
    const int bytes = static_cast<int>(job_.weight.cols) * 2;
    int own = 0;
    for (int row = begin_ + place_.warp; row < end_; row += shape_.warps) own += bytes;
    expect_bytes(there_, own);
    for (int row = begin_ + place_.warp; row < end_; row += shape_.warps) {
      const int input = by_input ? row : work_.pair_at(row) / job_.share;
      const std::uint32_t to = values_ + (row - begin_) * stride_of(job_) * 2;
      copy_bulk(to + static_cast<std::uint32_t>(job_.weight.lead) * 2,
                static_cast<const __nv_bfloat16*>(job_.in) + input * job_.in_stride, bytes, there_);
    }
  }

  /// Called by all threads: rows [first, first + rows).
  __device__ void fetch(int first, int rows) {
    if (!by_input && (first < begin_ || first + rows > end_)) {
      order_copies();
      __syncthreads();
      request(first);
    }
    if (!pending_) return;
    await_barrier(there_, parity_);
    pending_ = false, parity_ ^= 1;
    const int pieces = (stride_of(job_) - pad) / 8, all = (end_ - begin_) * pieces;
    for (int i = place_.warp * 32; i < all; i += shape_.warps * 32) arrange(i + place_.lane, pieces, all);
    __syncthreads();
  }

  /// Waits for rows that were asked for and never used: copies do not outlive their block.
  __device__ void close() {
    if (pending_) await_barrier(there_, parity_);
  }

 private:
  static constexpr int pad = 32;  // values; the 16 bytes of two rows then meet all banks

  /// A piece of eight values, four neighbours for four threads: of 32 columns the second 16 are a second step, and go
  /// behind the first's four of the same thread. All are made larger by what small codes are too small by.
  __device__ void arrange(int at, int pieces, int all) const {
    constexpr std::uint32_t factor = 0x5F805F80, minus_zero = 0x80008000;  // 2^64
    const int row = at / pieces, piece = at - row * pieces, col = piece * 8 - static_cast<int>(job_.weight.lead);
    const std::uint32_t from = values_ + (row * stride_of(job_) + piece * 8) * 2;
    uint4 v = {0, 0, 0, 0};
    if (at < all && col >= 0 && col < job_.weight.cols) v = read_16(from);
    for (std::uint32_t* pair : {&v.x, &v.y, &v.z, &v.w}) *pair = fma_pair(*pair, factor, minus_zero);
    __syncwarp();
    if (at >= all) return;
    const std::uint32_t to = from + (piece % 2 * 16 + piece % 4 / 2 * 4 - piece % 4 * 8) * 2;
    write_8(to, {v.x, v.y});
    write_8(to + 16, {v.z, v.w});
  }

  const ProductJob& job_;
  const StreamShape& shape_;
  const BlockWork& work_;
  const StreamPlace& place_;
  const std::uint32_t values_, there_;
  int begin_ = 0, end_ = 0;  // [begin_, end_): rows that lie there
  int parity_ = 0;
  bool pending_ = false;
};

}  // namespace specstep::cuda
