// A chunk of a stored matrix times the staged tokens.
#pragma once

#include <cstring>

#include "sim/cuda/kernels/product_stage.cuh"

namespace specstep::cuda {

using Sums = float[mma_rows / 8][4];  // of a warp's 16 weight rows and up to 16 tokens

__device__ inline void mma_16816(float (&d)[4], const std::uint32_t (&a)[4], uint2 b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

/// Two bf16 of a fragment's row and neighbouring columns to a column's two neighbouring rows: thread l gets those of
/// column l / 4 and rows 2 (l % 4) and the next.
__device__ inline std::uint32_t turned(float first, float second) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
  std::uint32_t in, out;
  std::memcpy(&in, &pair, 4);
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(in));
  return out;
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

/// sums += scale * part, by the scales of a thread's two rows of a tile; `part` begins anew.
template <int fragments>
__device__ __forceinline__ void add_scaled(Sums& sums, Sums& part, float2 scale) {
#pragma unroll
  for (int j = 0; j < fragments; ++j)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      sums[j][i] = fmaf(i < 2 ? scale.x : scale.y, part[j][i], sums[j][i]);
      part[j][i] = 0;
    }
}

/// sums += chunk tokens, in the codec's unit. Products of a scale group are summed first and scaled once, in fp32.
/// `tokens`: staged values of this thread's token of each fragment, from the chunk's first column on.
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
      if constexpr (Codec::small)
        Codec::unpack_small(words.w, step, a);
      else
        Codec::unpack(words.w, step, a);
#pragma unroll
      for (int j = 0; j < fragments; ++j) mma_16816(each > 0 ? part[j] : sums[j], a, row[j].of_step[step]);
      if constexpr (each > 0) {
        if ((step + 1) * 16 % each != 0) continue;
        add_scaled<fragments>(sums, part, chunk.template scale<finest>(tile * Codec::cols + step * 16 + 16 - each));
      }
    }
  }
}

}  // namespace specstep::cuda
