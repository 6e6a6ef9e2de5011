// The input's side of a product: its rows in shared memory.
#pragma once

#include "sim/cuda/kernels/product_feed.cuh"

namespace specstep::cuda {

/// Rows of the input in shared memory, with zeros where the matrix is padded; columns are counted from the matrix's
/// lead on. As many rows as fit whole, from those now in use on, stay for what the block does next; of rows that do not
/// fit whole, a stretch of columns at a time.
template <class Codec>
class Stage {
 public:
  /// `padded`: columns of a whole row; `batch`: columns of which a stretch is a multiple.
  __device__ Stage(const ProductJob& job, const MmaShape& shape, const BlockWork& work, __nv_bfloat16* values,
                   int padded, int batch)
      : job_(job),
        shape_(shape),
        work_(work),
        values_(values),
        padded_(padded),
        batch_(batch),
        whole_rows_(shape.stage_values / (padded + Codec::stage_pad)),
        cols_(padded) {}

  /// Begins to fetch the first rows, before the ring is filled.
  __device__ void open(int first, int rows) {
    if (rows > whole_rows_) return;
    load_whole(first);
    asm volatile("cp.async.commit_group;" ::: "memory");
    opening_ = true;
  }

  /// Plans for `rows` rows at once.
  __device__ void plan(int rows) {
    if (rows == rows_) return;
    rows_ = rows;
    const int room = shape_.stage_values / rows - Codec::stage_pad;
    cols_ = rows <= whole_rows_ ? padded_ : min(max(1, room / batch_) * batch_, padded_);
  }
  __device__ int cols() const { return cols_; }
  __device__ int stride() const { return cols_ + Codec::stage_pad; }
  /// Of the first row fetched.
  __device__ const __nv_bfloat16* values(int first) const { return values_ + (first - begin_) * stride(); }

  /// Called by all threads: rows [first, first + rows), columns from `col` on.
  __device__ void fetch(int first, int rows, int col) {
    if (opening_) {
      asm volatile("cp.async.wait_group %0;" ::"n"(Codec::ring_depth) : "memory");  // the ring's copies came after
      __syncthreads();
      opening_ = false;
      if constexpr (Codec::small) enlarge(end_ - begin_, padded_);
    }
    if (first >= begin_ && first + rows <= end_) return;
    __syncthreads();
    if (cols_ == padded_) {
      load_whole(first);
    } else {
      begin_ = first, end_ = first;
      load(first, rows, col, min(cols_, padded_ - col));
    }
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
    __syncthreads();
    if constexpr (Codec::small) enlarge(cols_ == padded_ ? end_ - begin_ : rows, min(cols_, padded_ - col));
  }

 private:
  __device__ void load_whole(int first) {
    begin_ = first, end_ = min(first + whole_rows_, work_.last_place());
    load(first, end_ - first, 0, padded_);
  }

  /// A warp for each row, or the block where rows are long.
  __device__ void load(int first, int rows, int col, int cols) const {
    const int lead = static_cast<int>(job_.weight.lead), last = static_cast<int>(job_.weight.cols);
    const int wide = shape_.by_16_bytes ? 8 : 1, threads = static_cast<int>(blockDim.x);
    const bool all = cols >= threads * wide;
    const int step = all ? threads : 32, thread = static_cast<int>(threadIdx.x);
    for (int row = all ? 0 : thread / 32; row < rows; row += all ? 1 : threads / 32) {
      const __nv_bfloat16* from =
          static_cast<const __nv_bfloat16*>(job_.in) + work_.pair_at(first + row) / job_.share * job_.in_stride;
      __nv_bfloat16* to = values_ + row * stride();
      for (int at = (all ? thread : thread % 32) * wide; at < cols; at += step * wide) {
        const int c = col + at - lead;
        const bool inside = c >= 0 && c < last;
        if (shape_.by_16_bytes)
          copy_16_if(inside, static_cast<std::uint32_t>(__cvta_generic_to_shared(to + at)), inside ? from + c : from);
        else
          to[at] = inside ? from[c] : __float2bfloat16_rn(0);
      }
    }
  }

  /// Times what small codes are too small by.
  __device__ void enlarge(int rows, int cols) const {
    constexpr std::uint32_t factor = 0x5F805F80, minus_zero = 0x80008000;  // 2^64
    const int threads = static_cast<int>(blockDim.x);
    for (int row = 0; row < rows; ++row)
      for (int at = static_cast<int>(threadIdx.x) * 4; at < cols; at += threads * 4) {
        auto* four = reinterpret_cast<uint2*>(values_ + row * stride() + at);
        *four = {fma_pair(four->x, factor, minus_zero), fma_pair(four->y, factor, minus_zero)};
      }
    __syncthreads();
  }

  const ProductJob& job_;
  const MmaShape& shape_;
  const BlockWork& work_;
  __nv_bfloat16* values_;
  int padded_, batch_, whole_rows_;
  int rows_ = 0, cols_, begin_ = 0, end_ = 0;  // [begin_, end_): rows that lie there whole
  bool opening_ = false;
};

}  // namespace specstep::cuda
