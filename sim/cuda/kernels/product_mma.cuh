// Products of few rows on tensor cores. The weights are the operand of 16 rows, the tokens that of 8 columns, so one
// token costs one column. Each warp keeps a ring of copies in flight; since it runs on into the next items of its
// block, the memory seldom waits for a row to be staged or a sum to be made.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "sim/cuda/kernels/product_formats.h"
#include "sim/cuda/kernels/product_launch.cuh"
#include "sim/cuda/kernels/product_write.cuh"

namespace specstep::cuda {

template <class Codec>
inline constexpr int ring_bytes = Codec::ring_depth* Chunk<Codec>::bytes;

/// A warp's reading end of its ring.
template <class Codec>
class Consumer {
 public:
  __device__ Consumer(const ProductJob& job, const MmaShape& shape, const WarpPlace& place, const unsigned char* ring,
                      Feed<Codec>& feed)
      : job_(job), shape_(shape), place_(place), ring_(ring), feed_(feed) {}

  /// The warp's part of `chunks` (first, last) of its row of tiles by as many staged columns of rows from `first` on.
  __device__ void multiply(const Stage<Codec>& stage, int first, int rows, int2 chunks, Sums& sums) {
    using Part = Chunk<Codec>;
    const int lane = place_.lane;
    // Columns of a fragment without a token repeat the last one's; their sums are not written.
    const __nv_bfloat16* values = stage.values(first) + lane % 4 * Codec::thread_cols + place_.member * Part::cols;
    const __nv_bfloat16* token_0 = values + min(lane / 4, rows - 1) * stage.stride();
    const __nv_bfloat16* token_1 = values + min(8 + lane / 4, rows - 1) * stage.stride();
    const bool scaled = Codec::always_scaled || job_.weight.group > 0;
    const int group = scaled && Codec::scale_cols > 0 ? 1 << shape_.group_shift : 1;
    const int lead = static_cast<int>(job_.weight.phase - job_.weight.lead);
    for (int chunk = chunks.x + place_.member; chunk < chunks.y; chunk += 1 << shape_.along_shift) {
      Feed<Codec>::wait();
      const unsigned char* at = ring_ + turn_ * Part::bytes;
      const ChunkView<Codec> view{at, reinterpret_cast<const typename Codec::Scale*>(at + Part::value_bytes) + lane / 4,
                                  (lead + chunk * Part::cols) & (group - 1), shape_.group_shift, scaled};
      if (rows > 8)
        multiply_chunk<Codec, 2, false>(view, {token_0, token_1}, lane, sums);
      else if (Codec::always_scaled && group == Codec::scale_cols)
        multiply_chunk<Codec, 1, Codec::always_scaled>(view, {token_0, token_1}, lane, sums);
      else
        multiply_chunk<Codec, 1, false>(view, {token_0, token_1}, lane, sums);
      token_0 += Part::cols << shape_.along_shift, token_1 += Part::cols << shape_.along_shift;
      __syncwarp();
      feed_.load(turn_);
      turn_ = turn_ + 1 == Codec::ring_depth ? 0 : turn_ + 1;
    }
  }

 private:
  const ProductJob& job_;
  const MmaShape& shape_;
  const WarpPlace& place_;
  const unsigned char* ring_;
  Feed<Codec>& feed_;
  int turn_ = 0;
};

/// All items of a block.
template <class Codec>
__device__ void multiply_items(const MmaShape& shape, const BlockWork& work, Stage<Codec>& stage,
                               Consumer<Codec>& consumer, Writer& writer) {
  const ProductJob& job = work.job();
  const WarpPlace place(shape);
  const int padded = shape.chunks * Chunk<Codec>::cols, teams = shape.warps >> shape.along_shift;
  for (int item = work.begin(); item < work.end();) {
    const Stretch now = work.from(item);
    item += now.last - now.begin;
    for (int row = now.begin; row < now.last; row += teams) {
      const bool some = row + place.team < now.last;
      for (int first = now.first; first < now.end; first += job.cap) {
        const int rows = min(job.cap, now.end - first);
        stage.plan(rows);
        Sums sums = {};
        for (int from = 0; from < padded; from += stage.cols()) {
          stage.fetch(first, rows, from);
          const int until = min(from + stage.cols(), padded);
          if (some)
            consumer.multiply(stage, first, rows, {from / Chunk<Codec>::cols, until / Chunk<Codec>::cols}, sums);
        }
        constexpr float unit = Codec::small ? Codec::small_unit : Codec::unit;
        if constexpr (unit != 1)
          for (auto& fragment : sums)
            for (float& sum : fragment) sum *= unit;
        if (some) writer.write(sums, row + place.team, first, rows);
      }
    }
  }
}

template <class Codec>
__global__ void __launch_bounds__(32 * most_warps, 1) multiply(const ProductJob job, const MmaShape shape) {
  extern __shared__ __align__(128) unsigned char shared[];
  unsigned char* totals = shared + shape.warps * ring_bytes<Codec>;
  auto* staged = reinterpret_cast<__nv_bfloat16*>(totals + shape.sum_bytes);
  wait_for_predecessor();
  BlockWork work(job, reinterpret_cast<int2*>(staged + shape.stage_values));
  work.read();
  Stage<Codec> stage(job, shape, work, staged, shape.chunks * Chunk<Codec>::cols,
                     Chunk<Codec>::cols << shape.along_shift);
  const WarpPlace place(shape);
  const unsigned char* ring = shared + place.warp * ring_bytes<Codec>;
  Feed<Codec> feed(job, shape, work, ring);
  if (work.begin() < work.end()) {
    const Stretch now = work.from(work.begin());
    stage.open(now.first, min(job.cap, now.end - now.first));
  }
  for (int i = 0; i < Codec::ring_depth; ++i) feed.load(i);
  Consumer<Codec> consumer(job, shape, place, ring, feed);
  Writer writer(job, shape, work, totals);
  multiply_items(shape, work, stage, consumer, writer);
}

/// How warps stand. With few rows, they share long rows of the matrix; with many, warps side by side share the staged
/// rows, also where those do not fit whole and have to be staged again and again.
template <class Codec>
MmaShape plan_warps(const ProductJob& job, double average_rows, int room) {
  constexpr int few_rows = 16, chunks_of_warp = 3, small_room = 200 << 10;
  MmaShape shape;
  shape.warps = room < small_room ? most_warps / 2 : most_warps;
  shape.chunks = static_cast<int>(ceil_div(job.weight.tiling.col_tiles * Codec::cols, Chunk<Codec>::cols));
  const double usual = average_rows + 1.5 * std::sqrt(average_rows);
  const double staged = std::min<double>(usual, mma_rows) * shape.chunks * Chunk<Codec>::cols * 2;
  const int most = average_rows > few_rows ? 0 : staged > room / 2 ? 1 : 3;
  while (shape.along_shift < most && shape.chunks >> (shape.along_shift + 1) >= chunks_of_warp) ++shape.along_shift;
  return shape;
}

/// Launches as many blocks as fit at once; each takes its share of what the router left.
template <class Codec>
void launch_mma(ProductJob job, double average_rows, cudaStream_t stream) {
  const StoredView& w = job.weight;
  const int room = shared_room();
  MmaShape shape = plan_warps<Codec>(job, average_rows, room);
  while (w.group >> shape.group_shift > 1) ++shape.group_shift;
  shape.by_16_bytes = job.in_stride % 8 == 0 && w.cols % 8 == 0 && w.lead % 8 == 0 &&
                      reinterpret_cast<std::uintptr_t>(job.in) % 16 == 0;
  shape.sum_bytes = Writer::bytes(shape);
  job.row_items = static_cast<int>(w.tiling.row_tiles);
  const int padded = shape.chunks * Chunk<Codec>::cols, batch = Chunk<Codec>::cols << shape.along_shift;
  const int fixed = shape.warps * ring_bytes<Codec> + shape.sum_bytes + list_bytes(job);
  constexpr int enough_rows = 64;
  shape.stage_values = std::min((room - fixed) / 2, enough_rows * (padded + Codec::stage_pad)) / 8 * 8;
  job.cap = std::min(mma_rows, shape.stage_values / (std::min(batch, padded) + Codec::stage_pad));
  divide_rows(job);
  launch_persistent(multiply<Codec>, job, {32 * shape.warps, fixed + shape.stage_values * 2, stream, items_of(job)},
                    shape);
}

}  // namespace specstep::cuda
