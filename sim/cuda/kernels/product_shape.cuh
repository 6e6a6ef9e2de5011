// How the warps of a product stand, and what they copy at once.
#pragma once

#include "sim/cuda/kernels/product_codec.cuh"

namespace specstep::cuda {

inline constexpr int most_warps = 16;  // of a block; fewer where shared memory is small
inline constexpr int mma_rows = 16;    // tokens at once: two fragments of eight

/// What the host works out once.
struct MmaShape {
  int stage_values = 0, sum_bytes = 0;
  int chunks = 0;  // of a row of tiles
  int warps = 0;
  int along_shift = 0;       // log2 of the warps that share a row of tiles: a team
  int group_shift = 0;       // log2 of a scale's columns
  bool by_16_bytes = false;  // rows of the input may be copied so
};

/// Where a warp stands among those of its block.
struct WarpPlace {
  int lane, warp, team, member;
  __device__ explicit WarpPlace(const MmaShape& shape)
      : lane(static_cast<int>(threadIdx.x) % 32),
        warp(__shfl_sync(~0U, static_cast<int>(threadIdx.x) / 32, 0)),
        team(warp >> shape.along_shift),
        member(warp & ((1 << shape.along_shift) - 1)) {}
};

/// 16 bytes past L1, and whole lines into the second-level cache.
__device__ inline void copy_16(std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
/// The same, or zeros.
__device__ inline void copy_16_if(bool some, std::uint32_t to, const void* from) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(some ? 16 : 0)
               : "memory");
}

/// A warp's part of a row of tiles, neighbouring columns: values, and behind them their scales.
template <class Codec>
struct Chunk {
  static constexpr int value_bytes = Codec::chunk_bytes;
  static constexpr int cols = value_bytes * 8 / Codec::bits / tile_rows;
  static constexpr int scales = Codec::scale_cols > 0 ? cols / Codec::scale_cols : 0;  // most groups in it
  static constexpr int scale_pieces = scales * static_cast<int>(sizeof(typename Codec::Scale)) * 8 / 16;
  static constexpr int bytes = value_bytes + scale_pieces * 16;
  static_assert(scale_pieces <= 32);
};

}  // namespace specstep::cuda
