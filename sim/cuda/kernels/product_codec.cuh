// From stored codes to fragments of the tensor cores: what a thread loads of a tile, and how it becomes bf16.
#pragma once

#include "sim/cuda/kernels/formats.cuh"

namespace specstep::cuda {

/// a b + c of two bf16 pairs. Exact wherever the codecs use it.
__device__ inline std::uint32_t fma_pair(std::uint32_t a, std::uint32_t b, std::uint32_t c) {
  std::uint32_t d;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
  return d;
}

/// (a & mask) | set: one instruction, where two literals would take two.
__device__ inline std::uint32_t masked(std::uint32_t a, std::uint32_t mask, std::uint32_t set) {
  std::uint32_t d;
  asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(d) : "r"(a), "r"(mask), "r"(set));
  return d;
}

/// A codec says: bits of a value; columns of one read of 16 bytes, or two of 8 rows each, by every thread; columns that
/// share a scale in one step of the tensor cores (0: no scales); how far apart, in columns, a thread's values of a step
/// lie from those of its neighbour; values behind each staged row of the input, so that a fragment's reads meet all
/// banks; the raw type of the scales of rows g and g + 8.
/// unpack gives the first operand of m16n8k16: rows g and g + 8 of columns 0, 1 and of columns 2, 3 of the thread's
/// four, in units of `unit`.
/// Where few rows use a weight, decoding it costs most. A codec that is `small` then leaves codes in the lowest places
/// of a bf16, as the very small numbers that they are there, subnormal ones among them (unpack_small); the input is
/// multiplied by 2^64 when it is staged and the sums by small_unit when they are complete, so that inputs of 2^63 and
/// more are too large, and sums below 2^-60 lose bits.
struct TileCodec {
  static constexpr int thread_cols = 4, stage_pad = 16;
  static constexpr bool plain = false;  // rows as they are
  static constexpr bool always_scaled = true;
  static constexpr float unit = 1, small_unit = 1;
  static constexpr bool small = false;
  static constexpr int chunk_bytes = 2048, ring_depth = 3;  // what a warp copies at once, and how many are in flight
  static constexpr bool long_chunks = false;                // LongChunks is faster where rows are long
};

/// Four-bit integers, kept as sign and magnitude: three bits of a bf16's mantissa with an exponent of 0 are magnitude *
/// 2^-129.
struct Int4Codec : TileCodec {
  static constexpr int bits = 4, cols = 64, scale_cols = 32;
  static constexpr float unit = 4;
  using Scale = std::uint32_t;  // bf16
  static __device__ void unpack(const std::uint32_t (&words)[4], int step, std::uint32_t (&a)[4]) {
    unpack_small(words, step, a);
    for (std::uint32_t& pair : a) pair = fma_pair(pair, 0x7F007F00, 0x80008000);  // times 2^127
  }
  static constexpr bool small = true;
  static constexpr float small_unit = 0x1p65F;
  static __device__ void unpack_small(const std::uint32_t (&words)[4], int step, std::uint32_t (&a)[4]) {
    const std::uint32_t w = words[step];
    constexpr std::uint32_t code = 0x80708070;
    const std::uint32_t lower_row = __funnelshift_l(w, w, 8);
    a[0] = w & code;
    a[2] = (w << 4) & code;
    a[1] = lower_row & code;
    a[3] = (lower_row << 4) & code;
  }
  static __device__ float2 scale(Scale raw) { return {__uint_as_float(raw << 16), __uint_as_float(raw & 0xFFFF0000)}; }
};

/// e2m1: sign to the sign, exponent and mantissa to the lowest exponent and highest mantissa places; times 2^126.
struct E2m1Codec : TileCodec {
  static constexpr int bits = 4, cols = 64;
  using Scale = std::uint16_t;
  static __device__ void unpack(const std::uint32_t (&words)[4], int step, std::uint32_t (&a)[4]) {
    unpack_small(words, step, a);
    for (std::uint32_t& pair : a) pair = fma_pair(pair, 0x7E807E80, 0x80008000);
  }
  static constexpr bool small = true;
  static constexpr bool long_chunks = true;
  static constexpr float small_unit = 0x1p62F;
  static __device__ void unpack_small(const std::uint32_t (&words)[4], int step, std::uint32_t (&a)[4]) {
    const std::uint32_t w = words[step];
    constexpr std::uint32_t sign = 0x80008000, rest = 0x01C001C0;
    a[0] = w & (sign | rest);
    a[2] = ((w << 1) & sign) | ((w << 3) & rest);
    a[1] = (w << 6) & (sign | rest);
    a[3] = ((w << 2) & sign) | ((w >> 4) & rest);
  }
};

struct Mxfp4Codec : E2m1Codec {
  static constexpr int scale_cols = 32;
  static __device__ float2 scale(Scale raw) { return {e8m0_value(raw & 0xFFU), e8m0_value(raw >> 8U)}; }
};

struct Nvfp4Codec : E2m1Codec {
  static constexpr int scale_cols = 16;
  static __device__ float2 scale(Scale raw) { return {e4m3_value(raw & 0xFFU), e4m3_value(raw >> 8U)}; }
};

/// One-byte codes: a word holds the four values of a row, the first two in its even bytes.
struct ByteCodec : TileCodec {
  static constexpr int bits = 8, cols = 32, scale_cols = 32;
  static constexpr bool always_scaled = false;  // or once, for the whole matrix
  using Scale = float2;
  static __device__ float2 scale(Scale raw) { return raw; }
};

/// e4m3, as e2m1; times 2^120.
struct Fp8Codec : ByteCodec {
  static __device__ void unpack(const std::uint32_t (&words)[4], int step, std::uint32_t (&a)[4]) {
    unpack_small(words, step, a);
    for (std::uint32_t& pair : a) pair = fma_pair(pair, 0x7B807B80, 0x80008000);
  }
  static constexpr bool small = true;
  static constexpr float small_unit = 0x1p56F;
  static __device__ void unpack_small(const std::uint32_t (&words)[4], int step, std::uint32_t (&a)[4]) {
    const auto pair = [](std::uint32_t odd_bytes) {
      return masked(odd_bytes >> 4, 0x07F007F0, odd_bytes & 0x80008000);
    };
    for (int lower = 0; lower < 2; ++lower) {
      const std::uint32_t word = words[2 * step + lower];
      a[lower] = pair(word << 8);
      a[2 + lower] = pair(word);
    }
  }
};

/// Seven bits in the mantissa of 128, minus 128 or, where the sign bit is set, 256: both share their exponent's place.
struct Int8Codec : ByteCodec {
  static __device__ void unpack(const std::uint32_t (&words)[4], int step, std::uint32_t (&a)[4]) {
    const auto pair = [](std::uint32_t even_bytes) {
      const std::uint32_t less = masked(even_bytes, 0x00800080, 0x43004300);
      return fma_pair(less, 0xBF80BF80, masked(even_bytes, 0x007F007F, 0x43004300));
    };
    for (int lower = 0; lower < 2; ++lower) {
      const std::uint32_t word = words[2 * step + lower];
      a[lower] = pair(word);
      a[2 + lower] = pair(word >> 8);
    }
  }
};

/// Plain rows: a thread loads eight neighbours of rows g and g + 8, four for each step.
struct Bf16Codec {
  static constexpr int bits = 16, cols = 32, scale_cols = 0;
  static constexpr int thread_cols = 8, stage_pad = 32;
  static constexpr bool plain = true, small = false, always_scaled = false;
  static constexpr float unit = 1, small_unit = 1;
  static constexpr bool long_chunks = false;  // where rows are long
  static constexpr int chunk_bytes = 2048, ring_depth = 3;
  using Scale = std::uint16_t;  // never loaded
  static __device__ void unpack(const std::uint32_t (&words)[8], int step, std::uint32_t (&a)[4]) {
    a[0] = words[2 * step], a[2] = words[2 * step + 1];
    a[1] = words[4 + 2 * step], a[3] = words[4 + 2 * step + 1];
  }
  static __device__ float2 scale(Scale) { return {1, 1}; }
};

/// The same for long rows: fewer, longer chunks.
template <class Codec>
struct LongChunks : Codec {
  static constexpr int chunk_bytes = 4096, ring_depth = 2;
};

}  // namespace specstep::cuda
