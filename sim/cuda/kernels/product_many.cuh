// Products of many rows on tensor cores. A block takes 256 rows of a matrix and up to 32 rows of the input at once, so
// that a weight is read and decoded once for all of them. Slabs of both run through one ring of the block, over all its
// items: the next item's first slabs are on their way while the last one's are used.
#pragma once

#include <algorithm>
#include <cstdint>

#include "sim/cuda/kernels/product_launch.cuh"
#include "sim/cuda/kernels/product_slab.cuh"

namespace specstep::cuda {

using ManySums = float[2][many_rows / 8][4];  // of a warp's two row tiles

/// Which of a slab's scale groups a column lies in.
struct SlabScale {
  int into, group_shift;  // columns of the first group before the slab; log2 of a group's columns
  bool scaled;

  /// Of this thread's rows of a row tile. `scales`: those of the tile.
  template <class Codec>
  __device__ float2 of(const unsigned char* scales, int col, int lane) const {
    if (!Codec::always_scaled && !scaled) return {1, 1};
    const auto* raw = reinterpret_cast<const typename Codec::Scale*>(scales) + lane / 4;
    return Codec::scale(raw[((into + col) >> group_shift) * 8]);
  }
};

/// sums += slab inputs, of `fragments` times eight rows of the input. Products of a scale group are summed first and
/// scaled once, in fp32.
template <class Codec, int fragments>
__device__ void multiply_slab(const unsigned char* tiles, const __nv_bfloat16* inputs, const SlabScale& scale, int lane,
                              ManySums& sums) {
  constexpr int stride = Slab<Codec>::tile_stride, each = Codec::scale_cols > 0 ? Codec::scale_cols / 16 : 2;
  const __nv_bfloat16* token = inputs + lane / 4 * Slab<Codec>::row_stride + lane % 4 * Codec::thread_cols;
#pragma unroll
  for (int tile = 0; tile < slab_cols / Codec::cols; ++tile) {
    const Words<Codec> words[2] = {Words<Codec>(tiles, tile, lane), Words<Codec>(tiles + stride, tile, lane)};
#pragma unroll
    for (int first = 0; first < Codec::cols / 16; first += each) {
      std::uint32_t a[2][each][4];
      float2 of_rows[2];
#pragma unroll
      for (int i = 0; i < 2; ++i) {
#pragma unroll
        for (int s = 0; s < each; ++s) Codec::unpack(words[i].w, first + s, a[i][s]);
        if constexpr (Codec::scale_cols > 0)
          of_rows[i] =
              scale.of<Codec>(tiles + i * stride + Slab<Codec>::value_bytes, tile * Codec::cols + first * 16, lane);
      }
#pragma unroll
      for (int j = 0; j < fragments; ++j) {
        const Tokens<Codec> row(token + j * 8 * Slab<Codec>::row_stride + tile * Codec::cols);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          float part[4] = {};
#pragma unroll
          for (int s = 0; s < each; ++s)
            mma_16816(Codec::scale_cols > 0 ? part : sums[i][j], a[i][s], row.of_step[first + s]);
          if constexpr (Codec::scale_cols > 0) {
#pragma unroll
            for (int k = 0; k < 4; ++k)
              sums[i][j][k] = fmaf(k < 2 ? of_rows[i].x : of_rows[i].y, part[k], sums[i][j][k]);
          }
        }
      }
    }
  }
}

/// As many fragments as hold `rows`; few numbers of them are compiled.
template <class Codec>
__device__ void multiply_slab(int rows, const unsigned char* tiles, const __nv_bfloat16* inputs, const SlabScale& scale,
                              int lane, ManySums& sums) {
  if (rows <= 8)
    multiply_slab<Codec, 1>(tiles, inputs, scale, lane, sums);
  else if (rows <= 16)
    multiply_slab<Codec, 2>(tiles, inputs, scale, lane, sums);
  else if (rows <= 24)
    multiply_slab<Codec, 3>(tiles, inputs, scale, lane, sums);
  else
    multiply_slab<Codec, many_rows / 8>(tiles, inputs, scale, lane, sums);
}

/// A warp's sums of an item to the output.
__device__ inline void write_many(const ProductJob& job, const ManyWork& work, const ManyItem& item, int lane,
                                  const ManySums& sums) {
  const int warp = static_cast<int>(threadIdx.x) / 32, rows = static_cast<int>(job.weight.rows);
  const bool pairs_fit = !job.f32_out && job.out_stride % 2 == 0 && reinterpret_cast<std::uintptr_t>(job.out) % 4 == 0;
  const float scale = job.weight.whole_scale;
#pragma unroll
  for (int j = 0; j < many_rows / 8; ++j) {
    if (8 * j >= item.rows) break;
    if (!pairs_fit) {
      for (int k = 0; k < 2; ++k) {
        const int token = 8 * j + lane % 4 * 2 + k;
        const std::int64_t at = work.pair_at(item.first + min(token, item.rows - 1)) * job.out_stride;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = (item.block * many_tiles + 2 * warp + i / 2) * tile_rows + i % 2 * 8 + lane / 4;
          const float value = (k == 0 ? sums[i / 2][j][i % 2 * 2] : sums[i / 2][j][i % 2 * 2 + 1]) * scale;
          if (token >= item.rows || row >= rows) continue;
          if (job.f32_out)
            static_cast<float*>(job.out)[at + row] = value;
          else
            static_cast<__nv_bfloat16*>(job.out)[at + row] = __float2bfloat16_rn(value);
        }
      }
      continue;
    }
    const int token = 8 * j + lane / 4;
    const std::int64_t at = work.pair_at(item.first + min(token, item.rows - 1)) * job.out_stride;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float(&four)[4] = sums[i / 2][j];
      const std::uint32_t two = turned(four[i % 2 * 2] * scale, four[i % 2 * 2 + 1] * scale);
      const int row = (item.block * many_tiles + 2 * warp + i / 2) * tile_rows + i % 2 * 8 + lane % 4 * 2;
      if (token >= item.rows || row >= rows) continue;
      auto* to = static_cast<__nv_bfloat16*>(job.out) + at + row;
      if (row + 1 < rows)
        *reinterpret_cast<std::uint32_t*>(to) = two;
      else
        *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(two);
    }
  }
}

/// Until the oldest slab lies in a ring of `depth`, as far as this thread copied it.
__device__ inline void wait_for_slab(int depth) {
  static_assert(most_slabs == 4);
  if (depth == 4)
    asm volatile("cp.async.wait_group 2;" ::: "memory");
  else if (depth == 3)
    asm volatile("cp.async.wait_group 1;" ::: "memory");
  else
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}

template <class Codec>
__global__ void __launch_bounds__(32 * many_warps, 2) multiply_many(const ProductJob job, const ManyShape shape) {
  extern __shared__ __align__(128) unsigned char shared[];
  wait_for_predecessor();
  const ManyWork work(job, shape, reinterpret_cast<int2*>(shared + shape.depth * Slab<Codec>::bytes));
  SlabFeed<Codec> feed(job, shape, work, shared);
  for (int i = 0; i < shape.depth - 1; ++i) feed.load(i);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const bool scaled = Codec::always_scaled || job.weight.group > 0;
  const int group = scaled && Codec::scale_cols > 0 ? 1 << shape.group_shift : 1;
  const int lead = static_cast<int>(job.weight.phase - job.weight.lead);
  ManyWork::At at = work.begin();
  int place = 0;
  for (int i = 0; i < work.count(); ++i, work.advance(at)) {
    const ManyItem item = work.item(at);
    ManySums sums = {};
    for (int slab = 0; slab < shape.slabs; ++slab) {
      wait_for_slab(shape.depth);
      __syncthreads();
      feed.load(place == 0 ? shape.depth - 1 : place - 1);  // which all have left behind the barrier
      const unsigned char* now = shared + place * Slab<Codec>::bytes;
      multiply_slab<Codec>(item.rows, now + 2 * warp * Slab<Codec>::tile_stride,
                           reinterpret_cast<const __nv_bfloat16*>(now + many_tiles * Slab<Codec>::tile_stride),
                           {(lead + slab * slab_cols) & (group - 1), shape.group_shift, scaled}, lane, sums);
      place = place + 1 == shape.depth ? 0 : place + 1;
    }
    if constexpr (Codec::unit != 1)
      for (auto& tile : sums)
        for (auto& fragment : tile)
          for (float& sum : fragment) sum *= Codec::unit;
    write_many(job, work, item, lane, sums);
  }
}

/// Whether the tensor cores' many-row product reads this input: rows by 16 bytes.
inline bool suits_many(const ProductJob& job) {
  const StoredView& w = job.weight;
  return job.in_stride % 8 == 0 && w.cols % 8 == 0 && w.lead % 8 == 0 &&
         reinterpret_cast<std::uintptr_t>(job.in) % 16 == 0;
}

template <class Codec>
void launch_many(const ProductJob& job, cudaStream_t stream) {
  const StoredView& w = job.weight;
  ManyShape shape;
  shape.slabs = static_cast<int>(ceil_div(w.tiling.col_tiles * Codec::cols, slab_cols));
  shape.blocks = static_cast<int>(ceil_div(w.tiling.row_tiles, many_tiles));
  while (w.group >> shape.group_shift > 1) ++shape.group_shift;
  const int list = ManyWork::list_bytes(job), half = shared_room() / 2 - 1024 - list;
  shape.depth = std::clamp(half / Slab<Codec>::bytes, 2, most_slabs);
  const std::int64_t rows = job.spans ? job.pairs : job.dense_rows, slots = job.spans ? job.max_slots : 1;
  const std::int64_t items = (slots + rows / many_rows) * shape.blocks;
  launch_persistent(multiply_many<Codec>, job,
                    {32 * many_warps, shape.depth * Slab<Codec>::bytes + list, stream, items}, shape);
}

}  // namespace specstep::cuda
