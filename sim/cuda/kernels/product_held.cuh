// Chunks of four-bit codes in registers: half the bytes of one-byte codes for the same work of the tensor cores leave no
// time for a way through shared memory.
#pragma once

#include "sim/cuda/kernels/product_stage.cuh"
#include "sim/cuda/kernels/product_tile.cuh"

namespace specstep::cuda {

/// What a thread holds of a chunk: its words of each tile, and the scales of its rows.
template <class Codec>
struct Held {
  static constexpr int tiles = Chunk<Codec>::value_bytes / tile_bytes;
  static constexpr int tile_scales = Codec::cols / Codec::scale_cols;
  uint4 words[tiles];
  typename Codec::Scale scales[tiles * tile_scales];
};

/// 16 bytes that nobody writes and this thread reads once.
__device__ inline uint4 load_once(const void* from) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}

/// A warp's chunks as loads into registers.
template <class Codec>
class HeldFeed : private ChunkWalk<Codec> {
 public:
  using ChunkWalk<Codec>::ChunkWalk;

  /// Begins to load the next chunk, if there is one.
  __device__ void load(Held<Codec>& to) {
    if (chunk_ >= shape_.chunks) return;
    constexpr int all = Held<Codec>::tiles;
    const int tiles = static_cast<int>(job_.weight.tiling.col_tiles) - chunk_ * all;
    const int col = chunk_ * Chunk<Codec>::cols + phase_;
    const auto* scales = reinterpret_cast<const typename Codec::Scale*>(scales_) + place_.lane / 4;
    if (tiles >= all && 1 << shape_.group_shift == Codec::scale_cols) {
      scales += (col >> shape_.group_shift) * 8;
#pragma unroll
      for (int i = 0; i < all; ++i) {
        to.words[i] = load_once(values_ + i * tile_bytes);
#pragma unroll
        for (int h = i * Held<Codec>::tile_scales; h < (i + 1) * Held<Codec>::tile_scales; ++h)
          to.scales[h] = __ldg(scales + h * 8);
      }
    } else {
      // Tiles and scales behind the last are zeros.
#pragma unroll
      for (int i = 0; i < all; ++i)
        to.words[i] = i < tiles ? load_once(values_ + i * tile_bytes) : make_uint4(0, 0, 0, 0);
#pragma unroll
      for (int h = 0; h < all * Held<Codec>::tile_scales; ++h) {
        const int group = (col + h * Codec::scale_cols) >> shape_.group_shift;
        to.scales[h] = group < job_.weight.tiling.groups ? __ldg(scales + group * 8) : 0;
      }
    }
    this->advance();
  }

 private:
  using Walk = ChunkWalk<Codec>;
  using Walk::job_, Walk::shape_, Walk::place_, Walk::values_, Walk::scales_, Walk::chunk_, Walk::phase_;
};

/// sums += chunk tokens, as multiply_chunk, times 1 / Codec::held_unit: codes are taken as the very small numbers that
/// they are in the lowest places of a bf16, and the tokens times a power of two.
template <class Codec, int fragments>
__device__ void multiply_held(const Held<Codec>& chunk, const __nv_bfloat16* const (&tokens)[mma_rows / 8],
                              Sums& sums) {
  constexpr std::uint32_t minus_zero = 0x80008000;
  [[maybe_unused]] constexpr std::uint32_t bias[4] = {Codec::held_bias.x, Codec::held_bias.x, Codec::held_bias.y,
                                                      Codec::held_bias.y};
#pragma unroll
  for (int tile = 0; tile < Held<Codec>::tiles; ++tile) {
    const uint4 v = chunk.words[tile];
    const std::uint32_t words[4] = {v.x, v.y, v.z, v.w};
    const Tokens<Codec> row[2] = {Tokens<Codec>(tokens[0] + tile * Codec::cols),
                                  Tokens<Codec>(tokens[fragments - 1] + tile * Codec::cols)};
    Sums part = {};
#pragma unroll
    for (int step = 0; step < Codec::cols / 16; ++step) {
      std::uint32_t a[4];
      Codec::hold(words[step], a);
#pragma unroll
      for (int j = 0; j < fragments; ++j) {
        const uint2 raw = row[j].of_step[step];
        const uint2 b = {fma_pair(raw.x, Codec::held_tokens.x, minus_zero),
                         fma_pair(raw.y, Codec::held_tokens.y, minus_zero)};
        if constexpr (Codec::held_bias.x != 0) mma_16816(part[j], bias, b);
        mma_16816(part[j], a, b);
      }
      if ((step + 1) * 16 % Codec::scale_cols != 0) continue;
      const float2 scale = Codec::scale(chunk.scales[(tile * Codec::cols + step * 16) / Codec::scale_cols]);
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

/// A warp's chunks, two on their way.
template <class Codec>
class HeldConsumer {
 public:
  __device__ HeldConsumer(const ProductJob& job, const MmaShape& shape, const BlockWork& work)
      : shape_(shape), place_(shape), feed_(job, shape, work) {
    feed_.load(even_), feed_.load(odd_);
  }

  /// The warp's part of `chunks` (first, last) of its row of tiles by as many staged columns of rows from `first` on.
  __device__ void multiply(const Stage<Codec>& stage, int first, int rows, int2 chunks, Sums& sums) {
    const int lane = place_.lane;
    // Columns of a fragment without a token repeat the last one's; their sums are not written.
    const __nv_bfloat16* values = stage.values(first) + lane % 4 * Codec::thread_cols + place_.member * Chunk<Codec>::cols;
    const __nv_bfloat16* token_0 = values + min(lane / 4, rows - 1) * stage.stride();
    const __nv_bfloat16* token_1 = values + min(8 + lane / 4, rows - 1) * stage.stride();
    for (int chunk = chunks.x + place_.member; chunk < chunks.y; chunk += 1 << shape_.along_shift) {
      if (turn_)
        use(odd_, {token_0, token_1}, rows, sums);
      else
        use(even_, {token_0, token_1}, rows, sums);
      turn_ = !turn_;
      token_0 += Chunk<Codec>::cols << shape_.along_shift, token_1 += Chunk<Codec>::cols << shape_.along_shift;
    }
  }

 private:
  __device__ void use(Held<Codec>& held, const __nv_bfloat16* const (&tokens)[mma_rows / 8], int rows, Sums& sums) {
    if (rows > 8)
      multiply_held<Codec, 2>(held, tokens, sums);
    else
      multiply_held<Codec, 1>(held, tokens, sums);
    feed_.load(held);
  }

  const MmaShape& shape_;
  const WarpPlace place_;
  HeldFeed<Codec> feed_;
  Held<Codec> even_, odd_;
  bool turn_ = false;
};

}  // namespace specstep::cuda
