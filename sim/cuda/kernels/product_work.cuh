// What a launch of a product works on: slots of rows that share a matrix, and which of them a block takes.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "sim/cuda/kernels/formats.cuh"

namespace specstep::cuda {

/// A grouped or dense product as its kernels see it. Slots are experts with pairs; of a dense product (spans null)
/// stretches of `dense_each` rows.
struct ProductJob {
  const void* in = nullptr;
  std::int64_t in_stride = 0;
  int share = 1;
  void* out = nullptr;
  std::int64_t out_stride = 0;
  bool f32_out = false;
  const std::int32_t* pair_of = nullptr;
  const int2* spans = nullptr;
  int pairs = 0;  // capacity of pair_of
  int dense_rows = 0, dense_each = 0;
  int max_slots = 0;  // dense: all slots
  int cap = 1;        // rows that a block works on at once
  int row_items = 1;  // items of a slot: stretches of the matrix's rows
  StoredView weight{};
};

/// Rows [first, end) of pair_of that share the matrix `expert`, and items [begin, last) of its rows.
struct Stretch {
  int expert, first, end;
  int begin, last;
};

/// Most items that a launch can have.
inline std::int64_t items_of(const ProductJob& job) { return static_cast<std::int64_t>(job.max_slots) * job.row_items; }

inline constexpr int most_pairs_listed = 2048;

/// Shared memory for what a block keeps of the grouping.
inline int list_bytes(const ProductJob& job) {
  if (!job.spans) return 0;
  return (job.max_slots + 1) * 8 + (job.pairs <= most_pairs_listed ? job.pairs * 4 : 0);
}

/// The items of one block: a stretch of all, so that neighbours share their rows.
class BlockWork {
 public:
  /// Called by all threads. `list` is shared memory of list_bytes.
  __device__ BlockWork(const ProductJob& job, int2* list) : job_(job), list_(list), pair_of_(job.pair_of) {
    if (job.spans) {
      const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
      for (int i = thread; i <= job.max_slots; i += threads) list[i] = job.spans[i];
      if (job.pairs <= most_pairs_listed) {
        auto* pairs = reinterpret_cast<std::int32_t*>(list + job.max_slots + 1);
        for (int i = thread; i < job.pairs; i += threads) pairs[i] = job.pair_of[i];
        pair_of_ = pairs;
      }
      __syncthreads();
      slots_ = list[0].x;
    } else {
      slots_ = job.max_slots;
    }
    const unsigned items = static_cast<unsigned>(slots_) * static_cast<unsigned>(job.row_items);
    const unsigned each = items / gridDim.x, more = items - each * gridDim.x;
    begin_ = static_cast<int>(each * blockIdx.x + min(blockIdx.x, more));
    end_ = begin_ + static_cast<int>(each + (blockIdx.x < more ? 1 : 0));
  }
  __device__ const ProductJob& job() const { return job_; }
  __device__ int begin() const { return begin_; }
  __device__ int end() const { return end_; }

  /// The items of this block from `item` on that are of the same slot.
  __device__ Stretch from(int item) const {
    const int slot = item / job_.row_items, begin = item - slot * job_.row_items;
    const int last = min(job_.row_items, begin + end_ - item);
    if (!job_.spans) {
      const int first = slot * job_.dense_each;
      return {0, first, min(first + job_.dense_each, job_.dense_rows), begin, last};
    }
    const int2 span = list_[1 + slot];
    return {span.x, span.y, slot + 1 < slots_ ? list_[2 + slot].y : list_[0].y, begin, last};
  }

  /// Behind the last place of this block's rows.
  __device__ int last_place() const { return begin_ < end_ ? from(end_ - 1).end : 0; }

  __device__ int pair_at(int place) const { return pair_of_ ? pair_of_[place] : place; }

 private:
  const ProductJob& job_;
  const int2* list_;
  const std::int32_t* pair_of_;
  int slots_ = 0, begin_ = 0, end_ = 0;
};

/// Divides the rows of a dense product among slots of whole `cap`s, as many as it takes for enough items.
inline void divide_rows(ProductJob& job) {
  if (job.spans) return;
  constexpr int enough_items = 512;
  const std::int64_t caps = ceil_div(job.dense_rows, job.cap);
  const std::int64_t slots = std::clamp<std::int64_t>(enough_items / job.row_items, 1, caps);
  job.dense_each = static_cast<int>(ceil_div(caps, slots)) * job.cap;
  job.max_slots = static_cast<int>(ceil_div(job.dense_rows, job.dense_each));
}

}  // namespace specstep::cuda
