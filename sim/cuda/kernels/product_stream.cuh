// Products of few rows over small codes, where bulk copies work. As product_mma.cuh, but each warp takes the same
// columns of every row of tiles and one of its threads copies them at once. Instructions are what such products are
// short of, and little is left to do beside each tile.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/cuda/kernels/product_launch.cuh"
#include "sim/cuda/kernels/product_rows.cuh"
#include "sim/cuda/kernels/product_tile.cuh"
#include "sim/cuda/kernels/product_totals.cuh"

namespace specstep::cuda {

/// What a thread reads of a chunk and of the rows of the input: addresses in shared memory.
template <class Codec, int fragments>
struct StreamView {
  std::uint32_t values, scales;  // scales: of its rows; the first is of column -`into` of the chunk
  std::uint32_t tokens[fragments];
  int into, group_shift;
  bool scaled;

  /// sums += `tiles` neighbours and on, in the codec's unit, where each tile lies in one scale group.
  __device__ void multiply_groups(int tiles, Sums& sums) {
    constexpr int together = 4;
    while (tiles > 0) {
      const int group = 1 << group_shift, in_group = (group - (into & (group - 1))) / Codec::cols;
      const int same = scaled ? min(tiles, in_group) : tiles;
      Sums part = {};
      int left = same;
#pragma unroll 1
      for (; left >= together; left -= together) add<together>(part);
#pragma unroll 1
      for (; left > 0; --left) add<1>(part);
      add_scaled<fragments>(sums, part, scaled ? scale_at<false>(0) : float2{1, 1});
      into += same * Codec::cols, tiles -= same;
    }
  }

  /// sums += `tiles` neighbours and on, in the codec's unit. `finest`: scale groups are no longer than the columns that
  /// can share a scale.
  template <int tiles, bool finest>
  __device__ void multiply(Sums& sums) {
    constexpr int each = Codec::scale_cols / 16;  // steps that share a scale
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      const uint4 v = read_16(values + tile * tile_bytes);
      const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        uint4 row[fragments];
#pragma unroll
        for (int j = 0; j < fragments; ++j) row[j] = read_16(tokens[j] + (tile * Codec::cols + half * 32) * 2);
        Sums part = {};
#pragma unroll
        for (int step = 0; step < 2; ++step) {
          std::uint32_t a[4];
          Codec::unpack_small(words, 2 * half + step, a);
#pragma unroll
          for (int j = 0; j < fragments; ++j)
            mma_16816(part[j], a, step == 0 ? uint2{row[j].x, row[j].y} : uint2{row[j].z, row[j].w});
          if ((step + 1) % each != 0) continue;
          add_scaled<fragments>(sums, part, scale_at<finest>(tile * Codec::cols + half * 32 + (step + 1 - each) * 16));
        }
      }
    }
    values += tiles * tile_bytes;
    if constexpr (finest)
      scales += tiles * Codec::cols / Codec::scale_cols * group_bytes;
    else
      into += tiles * Codec::cols;
#pragma unroll
    for (int j = 0; j < fragments; ++j) tokens[j] += tiles * Codec::cols * 2;
  }

 private:
  using Scale = typename Codec::Scale;
  static constexpr int group_bytes = static_cast<int>(sizeof(Scale)) * 8;

  /// part += `tiles` neighbours of 32 columns and on.
  template <int tiles>
  __device__ void add(Sums& part) {
    static_assert(Codec::cols == 32);
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
      const uint4 v = read_16(values + tile * tile_bytes);
      const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
      uint4 row[fragments];
#pragma unroll
      for (int j = 0; j < fragments; ++j) row[j] = read_16(tokens[j] + tile * Codec::cols * 2);
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        std::uint32_t a[4];
        Codec::unpack_small(words, step, a);
#pragma unroll
        for (int j = 0; j < fragments; ++j)
          mma_16816(part[j], a, step == 0 ? uint2{row[j].x, row[j].y} : uint2{row[j].z, row[j].w});
      }
    }
    values += tiles * tile_bytes;
#pragma unroll
    for (int j = 0; j < fragments; ++j) tokens[j] += tiles * Codec::cols * 2;
  }

  template <bool finest>
  __device__ float2 scale_at(int col) const {
    const int group = finest ? col / Codec::scale_cols : (into + col) >> group_shift;
    return Codec::scale(read_value<Scale>(scales + group * group_bytes));
  }
};

/// All items of a block.
template <class Codec, bool by_input>
class StreamWarp {
 public:
  __device__ StreamWarp(const ProductJob& job, const StreamShape& shape, const StreamPlace& place,
                        Supply<Codec>& supply, Totals& totals)
      : job_(job), shape_(shape), place_(place), supply_(supply), totals_(totals) {}

  __device__ void run(const BlockWork& work, Rows<Codec, by_input>& staged) {
    const bool finest = Codec::always_scaled && 1 << shape_.group_shift == Codec::scale_cols;
    for (int item = work.begin(); item < work.end();) {
      const Stretch now = work.from(item);
      item += now.last - now.begin;
      for (int first = now.first; first < now.end; first += job_.cap) {
        const int rows = min(job_.cap, now.end - first);
        staged.fetch(first, rows);
        totals_.open(first, rows);
        if (rows > 8)
          multiply_rows<2, false>(now, staged, first, rows);
        else if (finest)
          multiply_rows<1, true>(now, staged, first, rows);
        else
          multiply_rows<1, false>(now, staged, first, rows);
      }
    }
    totals_.finish();
    if constexpr (by_input) staged.close();
  }

 private:
  /// The team's rows of tiles of a stretch by some staged rows.
  template <int fragments, bool finest>
  __device__ void multiply_rows(const Stretch& now, const Rows<Codec, by_input>& staged, int first, int rows) {
    const int teams = shape_.warps >> shape_.along_shift;
    const int phase = static_cast<int>(job_.weight.phase - job_.weight.lead);
    // Columns of a fragment without a token repeat the last one's; their sums are not written.
    std::uint32_t tokens[fragments];
    for (int j = 0; j < fragments; ++j)
      tokens[j] = staged.address(first + min(8 * j + place_.lane / 4, rows - 1)) +
                  (place_.begin * Codec::cols + place_.lane % 4 * 8) * 2;
    for (int row = now.begin + place_.team; row < now.last; row += teams) {
      Sums sums = {};
      StreamView<Codec, fragments> view;
      view.group_shift = shape_.group_shift, view.scaled = shape_.scaled;
      for (int j = 0; j < fragments; ++j) view.tokens[j] = tokens[j];
      for (int tile = place_.begin; tile < place_.end; tile += shape_.chunk_tiles) {
        const int tiles = min(shape_.chunk_tiles, place_.end - tile);
        if (!finest) view.into = (phase + tile * Codec::cols) & ((1 << shape_.group_shift) - 1);
        const std::uint32_t chunk = supply_.wait();
        view.values = chunk + place_.lane * 16;
        view.scales =
            chunk + shape_.chunk_tiles * tile_bytes + place_.lane / 4 * static_cast<int>(sizeof(typename Codec::Scale));
        multiply_chunk<fragments, finest>(view, tiles, sums);
        supply_.pass();
      }
      for (auto& fragment : sums)
        for (float& sum : fragment) sum *= Codec::small_unit;
      totals_.write<fragments>(sums, row);
    }
  }

  template <int fragments, bool finest>
  __device__ static void multiply_chunk(StreamView<Codec, fragments>& view, int tiles, Sums& sums) {
    if constexpr (Codec::cols == Codec::scale_cols) {
      view.multiply_groups(tiles, sums);
    } else {
      constexpr int together = fragments == 1 ? 2 : 1;
#pragma unroll 1
      for (; tiles >= together; tiles -= together) view.template multiply<together, finest>(sums);
      if (together > 1 && tiles > 0) view.template multiply<1, finest>(sums);
    }
  }

  const ProductJob& job_;
  const StreamShape& shape_;
  const StreamPlace& place_;
  Supply<Codec>& supply_;
  Totals& totals_;
};

/// `by_input`: the grouping is new and the input so small that each block stages all of it.
template <class Codec, bool by_input>
__global__ void __launch_bounds__(32 * most_warps, 1) multiply_stream(const ProductJob job, const StreamShape shape) {
  extern __shared__ __align__(128) unsigned char shared[];
  unsigned char* staged = shared + Supply<Codec>::bytes(shape);
  unsigned char* sums = staged + Rows<Codec, by_input>::bytes(job, shape.staged_rows);
  auto* list = reinterpret_cast<int2*>(sums + Totals::bytes(shape, job.cap));
  const StreamPlace place(shape);
  BlockWork work(job, list);
  work.foresee();
  Supply<Codec> supply(job, shape, work, place, shared_address(shared));
  Rows<Codec, by_input> rows(job, shape, work, place, shared_address(staged));
  Totals totals(job, shape, work, place, reinterpret_cast<float*>(sums));
  // Rows are few bytes and needed first: asked for behind weights, of other blocks too, they come behind those. All
  // that the input has may be asked for before the grouping is known.
  if constexpr (by_input) {
    __syncthreads();
    wait_for_predecessor();
    work.ask();
    work.ask_first();
    rows.request(0);
    work.open();
    supply.open_first();
    work.keep();
    __syncthreads();
    supply.go_on();
  } else {
    if (!shape.settled) wait_for_predecessor();
    work.read();
    supply.open();
    const int early = shape.settled ? (shape.depth + 1) / 2 : 0;
    supply.fill(0, early);
    if (shape.settled) wait_for_predecessor();
    if (work.begin() < work.end()) rows.request(work.from(work.begin()).first);
    supply.fill(early, shape.depth);
  }
  StreamWarp<Codec, by_input>(job, shape, place, supply, totals).run(work, rows);
}

/// Rows by 16 bytes.
inline bool suits_stream(const ProductJob& job) {
  const StoredView& w = job.weight;
  int device = 0, major = 0;
  comm::check(cudaGetDevice(&device), "product");
  comm::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "product");
  return major >= bulk_capability && job.in_stride % 8 == 0 && w.cols % 8 == 0 && w.lead % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(job.in) % 16 == 0;
}

/// As many warps share a row of tiles as leave each enough columns, whatever the rows of the input: so many sums are
/// added, in one order. Chunks are of much the same size.
template <class Codec>
StreamShape plan_stream(const ProductJob& job, int room) {
  constexpr int small_room = 200 << 10, least_cols = 896;
  StreamShape shape;
  shape.warps = room < small_room ? most_warps / 2 : most_warps;
  shape.tiles = static_cast<int>(job.weight.tiling.col_tiles);
  while (2 << shape.along_shift <= shape.warps && (shape.tiles >> (shape.along_shift + 1)) * Codec::cols >= least_cols)
    ++shape.along_shift;
  const int each = static_cast<int>(ceil_div(shape.tiles, 1 << shape.along_shift));
  shape.chunk_tiles = static_cast<int>(ceil_div(each, ceil_div(each, most_chunk_tiles)));
  while (job.weight.group >> shape.group_shift > 1) ++shape.group_shift;
  shape.scaled = Codec::always_scaled || job.weight.group > 0;
  shape.chunk_bytes = shape.chunk_tiles * (tile_bytes + Codec::cols / Codec::scale_cols * Supply<Codec>::group_bytes);
  const int teams = shape.warps >> shape.along_shift;
  while (1 << shape.teams_shift < teams) ++shape.teams_shift;
  shape.value_step = teams * shape.tiles * tile_bytes;
  shape.scale_step = teams * static_cast<int>(job.weight.tiling.groups) * Supply<Codec>::group_bytes;
  shape.settled = job.settled;
  shape.pairs_fit = !job.f32_out && job.out_stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(job.out) % 4 == 0;
  return shape;
}

/// Whether it was launched: not where too few rows of the input fit whole. Longer rings than it takes to keep the
/// memory busy only make the rows of the input wait.
template <class Codec>
bool launch_stream(ProductJob job, double average_rows, cudaStream_t stream) {
  constexpr int enough_rows = 64, enough_ahead = 64 << 10, most_depth = 8, most_slots = 3, most_sums = 24 << 10,
                most_at_once = 30 << 10;
  const int room = shared_room();
  StreamShape shape = plan_stream<Codec>(job, room);
  shape.depth = 2, shape.sum_slots = 1;
  const auto bytes = [&](int rows, int cap) {
    return Supply<Codec>::bytes(shape) + Rows<Codec, false>::bytes(job, rows) + Totals::bytes(shape, cap) +
           list_bytes(job);
  };
  const int usual = std::clamp(static_cast<int>(2 * average_rows) + 1, 4, mma_rows);
  if (bytes(usual, usual) > room) return false;
  while (shape.depth < most_depth && Supply<Codec>::bytes(shape) < enough_ahead) {
    ++shape.depth;
    if (bytes(usual, usual) <= room) continue;
    --shape.depth;
    break;
  }
  job.cap = usual;
  while (job.cap < mma_rows && bytes(job.cap + 1, job.cap + 1) <= room) ++job.cap;
  while (shape.sum_slots < most_slots && Totals::bytes(shape, job.cap) < most_sums) {
    ++shape.sum_slots;
    if (Totals::bytes(shape, job.cap) <= most_sums && bytes(job.cap, job.cap) <= room) continue;
    --shape.sum_slots;
    break;
  }
  shape.add_behind = std::min(shape.sum_slots, 1 << shape.along_shift) - 1;
  shape.staged_rows = job.cap;
  while (shape.staged_rows < enough_rows && bytes(shape.staged_rows + 1, job.cap) <= room) ++shape.staged_rows;
  job.row_items = static_cast<int>(job.weight.tiling.row_tiles);
  divide_rows(job);
  job.row_items_inverse = inverse_of_row_items(job);
  const int inputs = Rows<Codec, true>::inputs(job);
  const bool by_input =
      !job.settled && inputs <= shape.staged_rows && Rows<Codec, true>::bytes(job, inputs) <= most_at_once;
  launch_persistent(by_input ? multiply_stream<Codec, true> : multiply_stream<Codec, false>, job,
                    {32 * shape.warps, bytes(shape.staged_rows, job.cap), stream, items_of(job)}, shape);
  return true;
}

}  // namespace specstep::cuda
