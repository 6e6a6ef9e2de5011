// Products of few rows on tensor cores. The weights are the operand of 16 rows, the tokens that of 8 columns, so one
// token costs one column. Each warp keeps a ring of copies in flight; since it runs on into the next items of its
// block, the memory never waits for a row to be staged or a sum to be made.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "sim/cuda/kernels/product_formats.h"
#include "sim/cuda/kernels/product_stage.cuh"

namespace specstep::cuda {

using Sums = float[mma_rows / 8][4];  // of a warp's 16 weight rows and up to 16 tokens

__device__ inline void mma_16816(float (&d)[4], const std::uint32_t (&a)[4], uint2 b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

/// What a thread reads of a chunk: 16 bytes of a tile, or of each of rows g and g + 8.
template <class Codec>
struct Words {
  std::uint32_t w[Codec::plain ? 8 : 4];

  __device__ Words(const unsigned char* chunk, int tile, int lane) {
    if constexpr (Codec::plain) {
      const unsigned char* row = chunk + lane / 4 * 128;
      const int turned = (tile * 4 + lane % 4) ^ (lane / 4 % 2 * 4);
      keep(row + turned * 16, w), keep(row + 1024 + turned * 16, w + 4);
    } else {
      keep(chunk + tile * tile_bytes + lane * 16, w);
    }
  }

 private:
  __device__ static void keep(const unsigned char* at, std::uint32_t* words) {
    const uint4 v = *reinterpret_cast<const uint4*>(at);
    words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
  }
};

/// A chunk in the ring. `scales`: those of this thread's rows; the first is of column -`into` of the chunk.
template <class Codec>
struct ChunkView {
  const unsigned char* values;
  const typename Codec::Scale* scales;
  int into, group_shift;
  bool scaled;

  /// `finest`: scale groups are no longer than the columns that can share a scale.
  template <bool finest>
  __device__ float2 scale(int col) const {
    if constexpr (finest) return Codec::scale(scales[col / Codec::scale_cols * 8]);
    return scaled ? Codec::scale(scales[((into + col) >> group_shift) * 8]) : float2{1, 1};
  }
};

/// What a thread reads of a staged row for one tile.
template <class Codec>
struct Tokens {
  uint2 of_step[Codec::cols / 16];

  __device__ explicit Tokens(const __nv_bfloat16* at) {
    if constexpr (Codec::plain) {
      [[maybe_unused]] const uint4 v = *reinterpret_cast<const uint4*>(at);
      of_step[0] = {v.x, v.y}, of_step[1] = {v.z, v.w};
    } else {
#pragma unroll
      for (int step = 0; step < Codec::cols / 16; ++step)
        of_step[step] = *reinterpret_cast<const uint2*>(at + step * 16);
    }
  }
};

/// sums += chunk tokens. Products of a scale group are summed first and scaled once, in fp32. `tokens`: staged values
/// of this thread's token of each fragment, from the chunk's first column on.
template <class Codec, int fragments, bool finest>
__device__ void multiply_chunk(const ChunkView<Codec>& chunk, const __nv_bfloat16* const (&tokens)[mma_rows / 8],
                               int lane, Sums& sums) {
  constexpr int each = Codec::scale_cols;
#pragma unroll
  for (int tile = 0; tile < Chunk<Codec>::cols / Codec::cols; ++tile) {
    const Words<Codec> words(chunk.values, tile, lane);
    const Tokens<Codec> row[2] = {Tokens<Codec>(tokens[0] + tile * Codec::cols),
                                  Tokens<Codec>(tokens[fragments - 1] + tile * Codec::cols)};
    Sums part = {};
#pragma unroll
    for (int step = 0; step < Codec::cols / 16; ++step) {
      std::uint32_t a[4];
      Codec::unpack(words.w, step, a);
#pragma unroll
      for (int j = 0; j < fragments; ++j) mma_16816(each > 0 ? part[j] : sums[j], a, row[j].of_step[step]);
      if constexpr (each > 0) {
        if ((step + 1) * 16 % each != 0) continue;
        const float2 scale = chunk.template scale<finest>(tile * Codec::cols + step * 16 + 16 - each);
#pragma unroll
        for (int j = 0; j < fragments; ++j)
#pragma unroll
          for (int i = 0; i < 4; ++i) {
            sums[j][i] = fmaf(i < 2 ? scale.x : scale.y, part[j][i], sums[j][i]);
            part[j][i] = 0;
          }
      }
    }
  }
}

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
        full_(static_cast<std::uint32_t>(__cvta_generic_to_shared(sums + shape.warps * sum_floats * 4)) +
              static_cast<std::uint32_t>(place_.team) * 16) {
    if (team_warps_ == 1) return;
    if (place_.member == 0 && place_.lane == 0) {
      asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(full_), "r"(team_warps_) : "memory");
      asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(full_ + 8) : "memory");
    }
    __syncthreads();
  }
  static int bytes(const MmaShape& shape) { return shape.along_shift == 0 ? 0 : shape.warps * (sum_floats * 4 + 16); }

  /// Sums of one row of tiles and rows [first, first + rows) of the input.
  __device__ void write(const Sums& sums, int row_tile, int first, int rows) {
    const int row_begin = row_tile * tile_rows;
    if (team_warps_ == 1) return write_own(sums, row_begin, first, rows);
    wait(full_ + 8, turn_ % 2 ^ 1);  // earlier sums have been read
    for_each(rows, sums, [&](int token, int row, float sum) { own_[token * sum_stride + row] = sum; });
    arrive(full_);
    if ((turn_ & (team_warps_ - 1)) == place_.member) {
      wait(full_, turn_ % 2);
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

  /// All that the warp wrote or read before it.
  __device__ void arrive(std::uint32_t barrier) const {
    __syncwarp();
    if (place_.lane == 0) asm volatile("{.reg .b64 t; mbarrier.arrive.shared.b64 t, [%0];}" ::"r"(barrier) : "memory");
  }
  __device__ static void wait(std::uint32_t barrier, int parity) {
    std::uint32_t done = 0;
    while (!done)
      asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}"
                   : "=r"(done)
                   : "r"(barrier), "r"(parity)
                   : "memory");
  }

  const ProductJob& job_;
  const BlockWork& work_;
  const WarpPlace place_;
  int team_warps_, turn_ = 0, first_ = -1;
  float* own_;
  std::uint32_t full_;  // a barrier of the team; eight bytes on the one of sums that have been read
  std::int64_t out_[2] = {};
};

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
      turn_ = turn_ + 1 == ring_depth ? 0 : turn_ + 1;
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

template <class Codec>
__global__ void __launch_bounds__(32 * most_warps, 1) multiply(const ProductJob job, const MmaShape shape) {
  extern __shared__ __align__(128) unsigned char shared[];
  constexpr int ring_bytes = ring_depth * Chunk<Codec>::bytes;
  unsigned char* totals = shared + shape.warps * ring_bytes;
  auto* staged = reinterpret_cast<__nv_bfloat16*>(totals + shape.sum_bytes);
  wait_for_predecessor();
  const BlockWork work(job, reinterpret_cast<int2*>(staged + shape.stage_values));
  const WarpPlace place(shape);
  const unsigned char* ring = shared + place.warp * ring_bytes;
  const int padded = shape.chunks * Chunk<Codec>::cols, teams = shape.warps >> shape.along_shift;
  Stage<Codec> stage(job, shape, work, staged, padded, Chunk<Codec>::cols << shape.along_shift);
  if (work.begin() < work.end()) {
    const Stretch now = work.from(work.begin());
    stage.open(now.first, min(job.cap, now.end - now.first));
  }
  Feed<Codec> feed(job, shape, work, ring);
  for (int i = 0; i < ring_depth; ++i) feed.load(i);

  Consumer<Codec> consumer(job, shape, place, ring, feed);
  Writer writer(job, shape, work, totals);
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
        if (some) writer.write(sums, row + place.team, first, rows);
      }
    }
  }
}

/// Shared memory that a block may take.
inline int shared_room() {
  int device = 0, most = 0;
  comm::check(cudaGetDevice(&device), "product");
  comm::check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), "product");
  return most;
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
  const int fixed = shape.warps * ring_depth * Chunk<Codec>::bytes + shape.sum_bytes + list_bytes(job);
  constexpr int enough_rows = 64;
  shape.stage_values = std::min((room - fixed) / 2, enough_rows * (padded + Codec::stage_pad)) / 8 * 8;
  job.cap = std::min(mma_rows, shape.stage_values / (std::min(batch, padded) + Codec::stage_pad));
  divide_rows(job);
  launch_persistent(multiply<Codec>, job, {32 * shape.warps, fixed + shape.stage_values * 2, stream}, shape);
}

}  // namespace specstep::cuda
