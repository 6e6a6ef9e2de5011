// The input's side of a product: its rows in shared memory.
#pragma once

#include "sim/cuda/kernels/product_feed.cuh"

namespace specstep::cuda {

/// Rows of the input in shared memory, a stretch of their columns, with zeros where the matrix is padded. Columns are
/// counted from the matrix's lead on.
template <class Codec>
class Stage {
 public:
  __device__ Stage(const ProductJob& job, const MmaShape& shape, const BlockWork& work, __nv_bfloat16* values)
      : job_(job), shape_(shape), work_(work), values_(values) {}

  /// Plans for `rows` rows in batches of `batch_cols` columns out of `padded` in all.
  __device__ void plan(int rows, int batch_cols, int padded) {
    if (rows == rows_) return;
    rows_ = rows;
    const int room = shape_.stage_values / rows - Codec::stage_pad;
    cols_ = room >= padded ? padded : min(max(1, room / batch_cols) * batch_cols, padded);
  }
  __device__ int cols() const { return cols_; }
  __device__ int stride() const { return cols_ + Codec::stage_pad; }
  __device__ const __nv_bfloat16* values() const { return values_; }

  /// Called by all threads: rows [first, first + rows), columns from `col` on. Rows that lie there whole stay.
  __device__ void fetch(int first, int rows, int col, int padded) {
    if (first == whole_) return;
    whole_ = cols_ == padded ? first : -1;
    __syncthreads();
    const int cols = min(cols_, padded - col);
    shape_.by_16_bytes ? copy<uint4>(first, rows, col, cols) : copy<__nv_bfloat16>(first, rows, col, cols);
    __syncthreads();
  }

 private:
  /// By plain loads, several in flight: to wait for asynchronous copies would be to wait for the ring too.
  template <class Piece>
  __device__ void copy(int first, int rows, int col, int cols) {
    constexpr int wide = sizeof(Piece) / sizeof(__nv_bfloat16), at_once = 4;
    const int lead = static_cast<int>(job_.weight.lead), last = static_cast<int>(job_.weight.cols);
    const unsigned pieces = static_cast<unsigned>(cols / wide), all = static_cast<unsigned>(rows) * pieces;
    for (unsigned begin = threadIdx.x; begin < all; begin += at_once * blockDim.x) {
      Piece kept[at_once];
      int to[at_once];
#pragma unroll
      for (int j = 0; j < at_once; ++j) {
        const unsigned i = begin + static_cast<unsigned>(j) * blockDim.x, row = i / pieces;
        const int at = static_cast<int>(i - row * pieces) * wide, c = col + at - lead;
        to[j] = i < all ? static_cast<int>(row) * stride() + at : -1;
        kept[j] = Piece{};
        if (i < all && c >= 0 && c < last) {
          const std::int64_t from = static_cast<std::int64_t>(work_.pair_at(first + static_cast<int>(row)) / job_.share) * job_.in_stride + c;
          kept[j] = *reinterpret_cast<const Piece*>(static_cast<const __nv_bfloat16*>(job_.in) + from);
        }
      }
#pragma unroll
      for (int j = 0; j < at_once; ++j)
        if (to[j] >= 0) *reinterpret_cast<Piece*>(values_ + to[j]) = kept[j];
    }
  }

  const ProductJob& job_;
  const MmaShape& shape_;
  const BlockWork& work_;
  __nv_bfloat16* values_;
  int rows_ = 0, cols_ = 0, whole_ = -1;
};

}  // namespace specstep::cuda
