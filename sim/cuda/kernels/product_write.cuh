// Where a product's sums go.
#pragma once

#include "sim/cuda/kernels/product_bulk.cuh"
#include "sim/cuda/kernels/product_tile.cuh"

namespace specstep::cuda {

inline constexpr int sum_stride = 20;  // floats from token to token: a fragment's writes meet all banks
inline constexpr int sum_floats = mma_rows * sum_stride;

/// Takes a warp's sums to the output. Where a team shares a row of tiles, its warps hand theirs in and go on; each in
/// turn adds all of them, in the order of the warps: the same bits in every run.
class Writer {
 public:
  /// Called by all threads. `sums`: shared memory of bytes(shape).
  __device__ Writer(const ProductJob& job, const MmaShape& shape, const BlockWork& work, unsigned char* sums)
      : job_(job),
        work_(work),
        place_(shape),
        team_warps_(1 << shape.along_shift),
        own_(reinterpret_cast<float*>(sums) + place_.warp * sum_floats),
        full_(shared_address(sums + shape.warps * sum_floats * 4) + static_cast<std::uint32_t>(place_.team) * 16) {
    if (team_warps_ == 1) return;
    if (place_.member == 0 && place_.lane == 0) {
      init_barrier(full_, team_warps_ * 32);
      init_barrier(full_ + 8, 32);
    }
    __syncthreads();
  }
  static int bytes(const MmaShape& shape) { return shape.along_shift == 0 ? 0 : shape.warps * (sum_floats * 4 + 16); }

  /// Sums of one row of tiles and rows [first, first + rows) of the input.
  __device__ void write(const Sums& sums, int row_tile, int first, int rows) {
    const int row_begin = row_tile * tile_rows;
    if (team_warps_ == 1) return write_own(sums, row_begin, first, rows);
    await_barrier(full_ + 8, turn_ % 2 ^ 1);  // earlier sums have been read
    for_each(rows, sums, [&](int token, int row, float sum) { own_[token * sum_stride + row] = sum; });
    arrive(full_);  // each thread for what it wrote itself
    if ((turn_ & (team_warps_ - 1)) == place_.member) {
      await_barrier(full_, turn_ % 2);
      add(row_begin, first, rows);
      arrive(full_ + 8);
    }
    ++turn_;
  }

 private:
  /// The values of a fragment that this thread holds.
  template <class Use>
  __device__ void for_each(int rows, const Sums& sums, Use use) const {
#pragma unroll
    for (int j = 0; j < mma_rows / 8; ++j) {
      if (8 * j >= rows) break;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = 8 * j + place_.lane % 4 * 2 + i % 2;
        if (token < rows) use(token, place_.lane / 4 + i / 2 * 8, sums[j][i]);
      }
    }
  }

  __device__ void put(std::int64_t at, float sum) const {
    const float value = sum * job_.weight.whole_scale;
    if (job_.f32_out)
      static_cast<float*>(job_.out)[at] = value;
    else
      static_cast<__nv_bfloat16*>(job_.out)[at] = __float2bfloat16_rn(value);
  }

  __device__ void write_own(const Sums& sums, int row_begin, int first, int rows) {
    if (first != first_) {
      first_ = first;
      for (int i = 0; i < 2; ++i) {
        const int token = place_.lane % 4 * 2 + i;
        if (token < rows) out_[i] = work_.pair_at(first + token) * job_.out_stride + place_.lane / 4;
      }
    }
    const int left = static_cast<int>(job_.weight.rows) - row_begin - place_.lane / 4;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (place_.lane % 4 * 2 + i % 2 < rows && i / 2 * 8 < left) put(out_[i % 2] + row_begin + i / 2 * 8, sums[0][i]);
    if (rows <= 8) return;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int token = 8 + place_.lane % 4 * 2 + i % 2;
      if (token < rows && i / 2 * 8 < left)
        put(work_.pair_at(first + token) * job_.out_stride + place_.lane / 4 + row_begin + i / 2 * 8, sums[1][i]);
    }
  }

  __device__ void add(int row_begin, int first, int rows) const {
    const float* all = own_ - place_.member * sum_floats;
    for (int i = place_.lane; i < rows * tile_rows; i += 32) {
      const int token = i / tile_rows, row = i % tile_rows;
      float sum = 0;
      for (int w = 0; w < team_warps_; ++w) sum += all[w * sum_floats + token * sum_stride + row];
      if (row_begin + row < job_.weight.rows)
        put(work_.pair_at(first + token) * job_.out_stride + row_begin + row, sum);
    }
  }

  const ProductJob& job_;
  const BlockWork& work_;
  const WarpPlace place_;
  int team_warps_, turn_ = 0, first_ = -1;
  float* own_;
  std::uint32_t full_;  // a barrier of the team; eight bytes on the one of sums that have been read
  std::int64_t out_[2] = {};
};

}  // namespace specstep::cuda
