// The input's side of a product: its rows in shared memory.
#pragma once

#include "sim/cuda/kernels/product_feed.cuh"

namespace specstep::cuda {

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

}  // namespace specstep::cuda
