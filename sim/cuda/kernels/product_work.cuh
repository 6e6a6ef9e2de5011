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
  bool settled = false;  // as GroupedProduct's
  const std::int32_t* pair_of = nullptr;
  const int2* spans = nullptr;
  int pairs = 0;  // capacity of pair_of
  int dense_rows = 0, dense_each = 0;
  int max_slots = 0;               // dense: all slots
  int cap = 1;                     // rows that a block works on at once
  int row_items = 1;               // items of a slot: stretches of the matrix's rows
  unsigned row_items_inverse = 0;  // divides by them, where not 0
  StoredView weight{};
};

/// Rows [first, end) of pair_of that share the matrix `expert`, and items [begin, last) of its rows.
struct Stretch {
  int expert, first, end;
  int begin, last;
};

/// Most items that a launch can have.
inline std::int64_t items_of(const ProductJob& job) { return static_cast<std::int64_t>(job.max_slots) * job.row_items; }

/// The divisor's inverse for a multiplication of 32 bits, exact for the items that there can be; else 0.
inline unsigned inverse_of_row_items(const ProductJob& job) {
  const std::int64_t each = job.row_items, all = std::int64_t{1} << 32;
  return each > 1 && items_of(job) * each < all ? static_cast<unsigned>((all + each - 1) / each) : 0;
}

inline constexpr int most_pairs_listed = 2048;

/// Shared memory for what a block keeps of the grouping.
inline int list_bytes(const ProductJob& job) {
  if (!job.spans) return 0;
  return (job.max_slots + 1) * 8 + (job.pairs <= most_pairs_listed ? job.pairs * 4 : 0);
}

/// The items of one block: a stretch of all, so that neighbours share their rows.
class BlockWork {
 public:
  /// `list` is shared memory of list_bytes.
  __device__ BlockWork(const ProductJob& job, int2* list) : job_(job), list_(list), pair_of_(job.pair_of) {}

  /// Asks for the grouping, which may be written yet: read() finds it near.
  __device__ void foresee() const {
    if (!job_.spans) return;
    const int thread = static_cast<int>(threadIdx.x), spans = thread * 16, pairs = thread * 32;
    if (spans <= job_.max_slots) asm volatile("prefetch.global.L2 [%0];" ::"l"(job_.spans + spans));
    if (pairs < job_.pairs) asm volatile("prefetch.global.L2 [%0];" ::"l"(job_.pair_of + pairs));
  }

  /// Reads the grouping. Called by all threads; a barrier of the block.
  __device__ void read() {
    ask();
    keep();
    __syncthreads();
    slots_ = job_.spans ? list_[0].x : job_.max_slots;
    divide();
  }
  /// The same in steps, each called by all threads. Asks for the grouping, past L1: it may be read before this kernel
  /// waits for others.
  __device__ void ask() {
    if (!job_.spans) return;
    const int thread = static_cast<int>(threadIdx.x);
    if (thread <= job_.max_slots) own_ = __ldcg(job_.spans + thread);
    if (listed() && thread < job_.pairs) pair_ = __ldcg(job_.pair_of + thread);
  }
  /// Asks for what open() and first() take.
  __device__ void ask_first() {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (job_.spans && lane <= job_.max_slots) of_lane_ = __ldcg(job_.spans + lane);
  }
  /// Behind this begin(), end() and first() hold,
  __device__ void open() {
    slots_ = job_.spans ? span(0).x : job_.max_slots;
    divide();
  }
  /// and behind this and a barrier of the block all else.
  __device__ void keep() {
    if (!job_.spans) return;
    const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
    for (int i = thread; i <= job_.max_slots; i += threads) list_[i] = i == thread ? own_ : __ldcg(job_.spans + i);
    if (!listed()) return;
    auto* pairs = reinterpret_cast<std::int32_t*>(list_ + job_.max_slots + 1);
    for (int i = thread; i < job_.pairs; i += threads) pairs[i] = i == thread ? pair_ : __ldcg(job_.pair_of + i);
    pair_of_ = pairs;
  }
  __device__ const ProductJob& job() const { return job_; }
  __device__ int begin() const { return begin_; }
  __device__ int end() const { return end_; }

  /// The items of this block from `item` on that are of the same slot.
  __device__ Stretch from(int item) const {
    return stretch(item, [&](int i) { return list_[i]; });
  }
  /// Those from begin() on; the block has some. Called by whole warps.
  __device__ Stretch first() const {
    return stretch(begin_, [&](int i) { return span(i); });
  }

  /// Behind the last place of this block's rows.
  __device__ int last_place() const { return begin_ < end_ ? from(end_ - 1).end : 0; }

  __device__ int pair_at(int place) const { return pair_of_ ? pair_of_[place] : place; }

 private:
  __device__ bool listed() const { return job_.pairs <= most_pairs_listed; }

  /// The block's part of all items.
  __device__ void divide() {
    const unsigned items = static_cast<unsigned>(slots_) * static_cast<unsigned>(job_.row_items);
    const unsigned each = items / gridDim.x, more = items - each * gridDim.x;
    begin_ = static_cast<int>(each * blockIdx.x + min(blockIdx.x, more));
    end_ = begin_ + static_cast<int>(each + (blockIdx.x < more ? 1 : 0));
  }

  /// Of the grouping, by a whole warp.
  __device__ int2 span(int i) const {
    if (i >= 32) return __ldcg(job_.spans + i);
    return {__shfl_sync(~0U, of_lane_.x, i), __shfl_sync(~0U, of_lane_.y, i)};
  }

  template <class Spans>
  __device__ Stretch stretch(int item, Spans spans) const {
    const int slot = job_.row_items_inverse == 0
                         ? item / job_.row_items
                         : static_cast<int>(__umulhi(static_cast<unsigned>(item), job_.row_items_inverse));
    const int begin = item - slot * job_.row_items;
    const int last = min(job_.row_items, begin + end_ - item);
    if (!job_.spans) {
      const int first = slot * job_.dense_each;
      return {0, first, min(first + job_.dense_each, job_.dense_rows), begin, last};
    }
    const int2 own = spans(1 + slot);
    return {own.x, own.y, slot + 1 < slots_ ? spans(2 + slot).y : spans(0).y, begin, last};
  }

  const ProductJob& job_;
  int2* list_;
  const std::int32_t* pair_of_;
  int slots_ = 0, begin_ = 0, end_ = 0;
  int2 own_ = {}, of_lane_ = {};  // entries of the grouping
  int pair_ = 0;
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
