// What follows the sum of a row: the residual, and the norm, whose squares are summed over the blocks of a cluster.
#pragma once

#include <nv/target>

#include "comm/cuda/own/device_memory.cuh"
#include "comm/cuda/own/fused.h"

namespace specstep::comm {

inline constexpr int most_row_warps = 32;

/// Adds over all threads of the blocks that share a row; each gets the same bits. Blocks of a cluster are neighbours in
/// the grid. Sums of one call follow each other; every thread takes part in each.
class RowSum {
 public:
  __device__ explicit RowSum(int cluster) : cluster_(cluster) {
    // Nobody writes to a block that has not begun: this half of a barrier is waited for before the first write.
    if (cluster_ > 1) NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("barrier.cluster.arrive.release;" ::: "memory");))
  }

  /// `parts`: [2][most_cluster * most_row_warps] of shared memory, which nothing else uses. Turns alternate, so that a
  /// block which is one sum ahead does not overwrite what a slower one still adds.
  __device__ float operator()(float value, float* parts) {
    constexpr unsigned all = 0xFFFFFFFFU;
    for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(all, value, step);
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    float* mine = parts + turn_ * most_cluster * most_row_warps;
    turn_ ^= 1U;
    if (cluster_ == 1) {
      if (lane == 0) mine[warp] = value;
      __syncthreads();
    } else {
      const unsigned block = blockIdx.x % static_cast<unsigned>(cluster_);
      NV_IF_TARGET(NV_PROVIDES_SM_90, (share(mine + block * warps + warp, value);))
    }
    float sum = 0;
    for (unsigned i = lane; i < static_cast<unsigned>(cluster_) * warps; i += 32) sum += mine[i];
    for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(all, sum, step);
    return sum;
  }

 private:
  /// Writes to the same place in every block of the cluster, and waits until all have.
  __device__ void share(float* place, float value) {
    NV_IF_TARGET(NV_PROVIDES_SM_90,
                 (if (!begun_) asm volatile("barrier.cluster.wait.acquire;" ::
                                                : "memory");
                  begun_ = true; if (threadIdx.x % 32 < static_cast<unsigned>(cluster_)) {
                    const auto here = static_cast<std::uint32_t>(__cvta_generic_to_shared(place));
                    std::uint32_t there;
                    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(threadIdx.x % 32));
                    asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(value) : "memory");
                  } asm volatile("barrier.cluster.arrive.release;" ::
                                     : "memory");
                  asm volatile("barrier.cluster.wait.acquire;" ::
                                   : "memory");))
  }

  int cluster_;
  unsigned turn_ = 0;
  bool begun_ = false;
};

/// See comm/protocol/rows.h. A thread keeps its first packs in registers; others it reads again from the residual,
/// which it wrote itself.
template <class Values, int keeps>
class NormEpilogue {
 public:
  /// `parts`: see RowSum.
  __device__ NormEpilogue(const RowNorm& call, float* parts) : call_(call), sum_(call.cluster), parts_(parts) {}

  /// Loads what the thread's first pack meets, while that is on its way.
  __device__ void expect(std::uint32_t row, std::uint32_t p) {
    residual_ = load(at(call_.residual, row), p);
    gain_ = load(call_.gain, p);
  }
  __device__ void add(int k, bool keep, std::uint32_t row, std::uint32_t p, const Pack& sum) {
    Values total;
    total.add(expects && keep ? residual_ : load(at(call_.residual, row), p));
    total.add(sum);
    const Pack rounded = total.rounded();
    store_values(at(call_.residual, row), call_.row_bytes, p, rounded);
    if (call_.copy)
      store_values(static_cast<std::byte*>(call_.copy) + row * call_.copy_bytes, call_.row_bytes, p, rounded);
    Values normed;
    normed.add(rounded);
#pragma unroll
    for (float v : normed.value) squares_ += v * v;
    if (keep) kept_[k] = rounded;
  }
  template <class Visit>
  __device__ void finish(std::uint32_t row, Visit visit) {
    const float mean = sum_(squares_, parts_) / call_.width;
    squares_ = 0;
    const float scale = 1.0F / sqrtf(mean + call_.epsilon);
    visit([&](int k, bool keep, std::uint32_t p) {
      Values value, gain, scaled;
      value.add(keep ? kept_[k] : load(at(call_.residual, row), p));
      gain.add(expects && keep ? gain_ : load(call_.gain, p));
#pragma unroll
      for (int i = 0; i < static_cast<int>(sizeof(scaled.value) / sizeof(float)); ++i)
        scaled.value[i] = value.value[i] * scale * gain.value[i];
      store_values(at(call_.out, row), call_.row_bytes, p, scaled.rounded());
    });
  }

 private:
  static constexpr bool expects = keeps == 1;  // two stages: the first packs of all shards would take all registers
  __device__ std::byte* at(void* rows, std::uint32_t row) const {
    return static_cast<std::byte*>(rows) + static_cast<std::size_t>(row) * call_.row_bytes;
  }
  __device__ Pack load(const void* row, std::uint32_t p) const { return load_values(row, call_.row_bytes, p); }

  const RowNorm& call_;
  RowSum sum_;
  float* parts_;
  float squares_ = 0;
  Pack kept_[keeps];
  Pack residual_, gain_;
};

}  // namespace specstep::comm
