// What follows the sum of a row: the residual, and the norm, whose squares are summed over the blocks of a cluster.
#pragma once

#include <nv/target>

#include "comm/cuda/own/device_memory.cuh"
#include "comm/cuda/own/fused.h"

namespace specstep::comm {

inline constexpr int most_row_warps = 32;

/// The two halves of a barrier of all threads of a cluster; nothing where the device has none. Threads of a warp may
/// come one by one.
__device__ inline void arrive_in_cluster() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("barrier.cluster.arrive.release;" ::: "memory");))
}
__device__ inline void wait_for_cluster() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("barrier.cluster.wait.acquire;" ::: "memory");))
}

/// Writes to the place of `mine` in the shared memory of a block of the cluster.
__device__ inline void store_in_cluster([[maybe_unused]] float* mine, [[maybe_unused]] unsigned block,
                                        [[maybe_unused]] float value) {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (const auto here = static_cast<std::uint32_t>(__cvta_generic_to_shared(mine));
                                   std::uint32_t there; asm("mapa.shared::cluster.u32 %0, %1, %2;"
                                                            : "=r"(there)
                                                            : "r"(here), "r"(block));
                                   asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value)
                                                : "memory");))
}

/// Adds over all threads of the blocks that share a row; each gets the same bits. Blocks of a cluster are neighbours in
/// the grid. Sums of one call follow each other; every thread takes part in each.
class RowSum {
 public:
  /// Nobody writes to a block that has not begun: this half of a barrier is waited for before the first write.
  __device__ explicit RowSum(int cluster) : cluster_(static_cast<unsigned>(cluster)) {
    if (cluster_ > 1) arrive_in_cluster();
  }

  /// `parts`: [2][most_cluster * most_row_warps] of shared memory, which nothing else uses. Turns alternate, so that a
  /// block which is one sum ahead does not overwrite what a slower one still adds.
  __device__ float operator()(float value, float* parts) {
    const unsigned lane = threadIdx.x % 32, warps = blockDim.x / 32;
    float* turn = parts + turn_ * most_cluster * most_row_warps;
    float* mine = turn + blockIdx.x % cluster_ * warps + threadIdx.x / 32;
    turn_ ^= 1U;
    value = over_warp(value);
    if (cluster_ == 1) {
      if (lane == 0) *mine = value;
      __syncthreads();
    } else {
      if (!begun_) wait_for_cluster();
      begun_ = true;
      if (lane < cluster_) store_in_cluster(mine, lane, value);
      arrive_in_cluster();
      wait_for_cluster();
    }
    float sum = 0;
    for (unsigned i = lane; i < cluster_ * warps; i += 32) sum += turn[i];
    return over_warp(sum);
  }

 private:
  __device__ static float over_warp(float value) {
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xFFFFFFFFU, value, step);
    return value;
  }

  unsigned cluster_;
  unsigned turn_ = 0;
  bool begun_ = false;
};

/// See comm/protocol/rows.h. A thread keeps its first packs in registers; others it reads again from the residual,
/// which it wrote itself. `packed`: all arrays begin at 16 bytes and rows are whole packs.
template <class Values, int keeps, bool packed>
class NormEpilogue {
 public:
  /// `parts`: see RowSum.
  __device__ NormEpilogue(const RowNorm& call, float* parts) : call_(call), sum_(call.cluster), parts_(parts) {}

  /// Loads the residual while the sum is on its way; of a thread that keeps one pack, the gain as well.
  __device__ void expect(int k, std::uint32_t row, std::uint32_t p) {
    kept_[k] = load(at(call_.residual, row), p);
    if constexpr (gain_early) gain_[k] = load(call_.gain, p);
  }
  __device__ void add(int k, bool keep, std::uint32_t row, std::uint32_t p, const Pack& sum) {
    Values total;
    total.add(keep ? kept_[k] : load(at(call_.residual, row), p));
    total.add(sum);
    const Pack rounded = total.rounded();
    store(at(call_.residual, row), p, rounded);
    if (call_.copy) store(static_cast<std::byte*>(call_.copy) + row * call_.copy_bytes, p, rounded);
    Values normed;
    normed.add(rounded);
#pragma unroll
    for (float v : normed.value) squares_ += v * v;
    if (keep) kept_[k] = rounded;
  }
  template <class Visit>
  __device__ void finish(std::uint32_t row, Visit visit) {
    if constexpr (!gain_early)  // on its way while squares are added
      visit([&](int k, bool keep, std::uint32_t p) {
        if (keep) gain_[k] = load(call_.gain, p);
      });
    const float mean = sum_(squares_, parts_) / call_.width;
    squares_ = 0;
    const float scale = 1.0F / sqrtf(mean + call_.epsilon);
    visit([&](int k, bool keep, std::uint32_t p) {
      Values value, gain, scaled;
      value.add(keep ? kept_[k] : load(at(call_.residual, row), p));
      gain.add(keep ? gain_[k] : load(call_.gain, p));
#pragma unroll
      for (int i = 0; i < static_cast<int>(sizeof(scaled.value) / sizeof(float)); ++i)
        scaled.value[i] = value.value[i] * scale * gain.value[i];
      store(at(call_.out, row), p, scaled.rounded());
    });
  }

 private:
  static constexpr bool gain_early = keeps == 1;  // many would take all registers while sums are waited for
  __device__ std::byte* at(void* rows, std::uint32_t row) const {
    return static_cast<std::byte*>(rows) + static_cast<std::size_t>(row) * call_.row_bytes;
  }
  __device__ Pack load(const void* row, std::uint32_t p) const {
    if constexpr (!packed) return load_values(row, call_.row_bytes, p);
    const uint4 v = static_cast<const uint4*>(row)[p];
    return {{v.x, v.y, v.z, v.w}};
  }
  __device__ void store(void* row, std::uint32_t p, const Pack& v) const {
    if constexpr (!packed) return store_values(row, call_.row_bytes, p, v);
    static_cast<uint4*>(row)[p] = make_uint4(v.word[0], v.word[1], v.word[2], v.word[3]);
  }

  const RowNorm& call_;
  RowSum sum_;
  float* parts_;
  float squares_ = 0;
  Pack kept_[keeps];  // the residual, then with the sum
  Pack gain_[keeps];
};

}  // namespace specstep::comm
