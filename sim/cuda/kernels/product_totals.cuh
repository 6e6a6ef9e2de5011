// Where a streaming product's sums go.
#pragma once

#include "sim/cuda/kernels/product_supply.cuh"
#include "sim/cuda/kernels/product_tile.cuh"

namespace specstep::cuda {

/// Takes a warp's sums to the output. Where a team shares a row of tiles, its warps hand theirs in and go on; each in
/// turn adds all of them some rows later, in the order of the warps: the same bits in every run.
class Totals {
 public:
  /// Called by all threads, which a barrier of the block holds up behind it. `sums`: shared memory of bytes(shape,
  /// job.cap).
  __device__ Totals(const ProductJob& job, const StreamShape& shape, const BlockWork& work, const StreamPlace& place,
                    float* sums)
      : job_(job),
        shape_(shape),
        work_(work),
        place_(place),
        own_(sums + place_.warp * shape.sum_slots * slot_floats()),
        full_(shared_address(sums + shape.warps * shape.sum_slots * slot_floats()) +
              static_cast<std::uint32_t>(place_.team * shape.sum_slots) * 16) {
    if (members() == 1) return;
    if (place_.member == 0 && place_.lane == 0)
      for (int i = 0; i < shape.sum_slots; ++i) init_barrier(full(i), members()), init_barrier(free(i), 1);
  }
  __host__ __device__ static int bytes(const StreamShape& shape, int cap) {
    return shape.along_shift == 0 ? 0 : shape.warps * shape.sum_slots * (cap * stride * 4 + 16);
  }

  /// Sums of rows [first, first + rows) of the input come next.
  __device__ void open(int first, int rows) {
    first_ = first, rows_ = rows;
    if (members() > 1) return;
    for (int j = 0; j < mma_rows / 8; ++j)
      out_[j] = work_.pair_at(first + min(8 * j + place_.lane / 4, rows - 1)) * job_.out_stride + place_.lane % 4 * 2;
  }

  /// Of one row of tiles.
  template <int fragments>
  __device__ void write(const Sums& sums, int row_tile) {
    if (members() == 1) return write_own<fragments>(sums, row_tile * tile_rows);
    await_barrier(free(slot_), parity_ ^ 1);
    float* own = own_ + slot_ * slot_floats() + place_.lane % 4 * 2 * stride + place_.lane / 4;
#pragma unroll
    for (int j = 0; j < fragments; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (8 * j + place_.lane % 4 * 2 + i % 2 < rows_) own[(8 * j + i % 2) * stride + i / 2 * 8] = sums[j][i];
    __syncwarp();
    if (place_.lane == 0) arrive(full(slot_));
    if ((turn_ & (members() - 1)) == place_.member) due_ = {turn_, slot_, parity_, row_tile, first_, rows_};
    if (due_.turn >= 0 && turn_ - due_.turn >= shape_.add_behind) finish();
    ++turn_;
    if (++slot_ == shape_.sum_slots) slot_ = 0, parity_ ^= 1;
  }

  /// Adds what this warp has still to add.
  __device__ void finish() {
    if (due_.turn < 0) return;
    const int slot = due_.slot, row_begin = due_.row_tile * tile_rows;
    await_barrier(full(slot), due_.parity);
    const int each = shape_.sum_slots * slot_floats();
    const float* all = own_ - place_.member * each + slot * slot_floats();
    for (int i = place_.lane; i < due_.rows * tile_rows; i += 32) {
      const int token = i / tile_rows, row = i % tile_rows;
      float sum = 0;
      for (int w = 0; w < members(); ++w) sum += all[w * each + token * stride + row];
      if (row_begin + row < job_.weight.rows)
        put(work_.pair_at(due_.first + token) * job_.out_stride + row_begin + row, sum);
    }
    __syncwarp();
    if (place_.lane == 0) arrive(free(slot));
    due_.turn = -1;
  }

 private:
  static constexpr int stride = 20;  // floats from token to token: a fragment's writes meet all banks

  __device__ int members() const { return 1 << shape_.along_shift; }
  __device__ int slot_floats() const { return job_.cap * stride; }

  struct Due {
    int turn, slot, parity, row_tile, first, rows;
  };

  __device__ std::uint32_t full(int slot) const { return full_ + slot * 16; }
  __device__ std::uint32_t free(int slot) const { return full_ + slot * 16 + 8; }

  __device__ void put(std::int64_t at, float sum) const {
    if (job_.f32_out)
      static_cast<float*>(job_.out)[at] = sum * job_.weight.whole_scale;
    else
      static_cast<__nv_bfloat16*>(job_.out)[at] = __float2bfloat16_rn(sum * job_.weight.whole_scale);
  }

  template <int fragments>
  __device__ void write_own(const Sums& sums, int row_begin) const {
    if (!shape_.pairs_fit || row_begin + tile_rows > job_.weight.rows) return write_each<fragments>(sums, row_begin);
    const float scale = job_.weight.whole_scale;
#pragma unroll
    for (int j = 0; j < fragments; ++j) {
      auto* to = static_cast<__nv_bfloat16*>(job_.out) + out_[j] + row_begin;
      const std::uint32_t upper = turned(sums[j][0] * scale, sums[j][1] * scale);
      const std::uint32_t lower = turned(sums[j][2] * scale, sums[j][3] * scale);
      if (8 * j + place_.lane / 4 >= rows_) continue;
      *reinterpret_cast<std::uint32_t*>(to) = upper;
      *reinterpret_cast<std::uint32_t*>(to + 8) = lower;
    }
  }

  template <int fragments>
  __device__ void write_each(const Sums& sums, int row_begin) const {
#pragma unroll
    for (int j = 0; j < fragments; ++j)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int token = 8 * j + place_.lane % 4 * 2 + i % 2, row = row_begin + place_.lane / 4 + i / 2 * 8;
        if (token < rows_ && row < job_.weight.rows)
          put(work_.pair_at(first_ + token) * job_.out_stride + row, sums[j][i]);
      }
  }

  const ProductJob& job_;
  const StreamShape& shape_;
  const BlockWork& work_;
  const StreamPlace& place_;
  float* const own_;
  const std::uint32_t full_;  // for each slot a barrier of the team, and one of sums that have been added
  std::int64_t out_[mma_rows / 8] = {};
  Due due_{-1, 0, 0, 0, 0, 0};
  int turn_ = 0, slot_ = 0, parity_ = 0, first_ = 0, rows_ = 0;
};

}  // namespace specstep::cuda
