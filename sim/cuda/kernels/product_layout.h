// Where a stored code lies: tiles in the order of the tensor cores' fragments. Plain arithmetic, for host and device.
#pragma once

#include <cstdint>

#include "model/base/dtype.h"

namespace specstep::cuda {

/// rows: one row behind the other. bytes, nibbles: tiles of 16 rows by 32 and 64 columns.
enum class Layout : std::uint8_t { rows, bytes, nibbles };

constexpr Layout layout_of(DType type) {
  switch (type) {
    case DType::f32:
    case DType::bf16:
    case DType::f16:
      break;
    case DType::fp8:
    case DType::int8:
      return Layout::bytes;
    case DType::int4:
    case DType::nvfp4:
    case DType::mxfp4:
      return Layout::nibbles;
  }
  return Layout::rows;
}

inline constexpr int tile_rows = 16;
inline constexpr int tile_bytes = 512;  // one load of 16 bytes by each thread of a warp
constexpr int tile_cols(Layout layout) { return layout == Layout::nibbles ? 64 : 32; }

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Index of the code of (row, col) among those of its tile, in bytes or nibbles. An m16n8k16 fragment gives thread
/// 4 g + t of a warp rows g and g + 8, and four of each 16 columns. Which four is free, as long as both operands agree:
/// 4 t to 4 t + 3 here, so that the other operand is read by eight bytes. A thread's 16 bytes are its words of the
/// tile's steps of 16 columns. Within a word, codes lie so that a shift and a mask put two neighbours into the two
/// halves of a register.
constexpr int place_in_tile(Layout layout, int row, int col) {
  const int lane = row % 8 * 4 + col % 16 / 4;
  const int lower_row = row / 8, step = col / 16, of_four = col % 4;
  if (layout == Layout::nibbles) return (lane * 4 + step) * 8 + of_four / 2 + 2 * lower_row + 4 * (of_four % 2);
  return (lane * 4 + step * 2 + lower_row) * 4 + of_four / 2 + 2 * (of_four % 2);
}

/// Four-bit codes are a sign and three bits, and do not lie as nibbles within their word of eight. bf16 has its sign at
/// bit 15, the last of its exponent at bit 7 and its mantissa below; a register of the tensor cores holds two. Integers
/// become numbers wherever their three bits lie up to bit 7, at bits 6 to 4 here: turning the word by 4 places brings
/// the next two codes there. e2m1 needs bits 8 to 6: a code whose three lower bits stay together and as far from the
/// sign gets there by one shift, or none. Two of the four in a half lie so; of the other two, which fill what is left,
/// sign and rest are shifted apart.
struct CodePlace {
  int sign, rest;  // bits of the word
};
constexpr CodePlace place_of_code(DType type, int place) {
  const int half = place / 4 * 16, at = place % 4;
  if (type == DType::int4) return {half + 15 - 4 * at, (half + 36 - 4 * at) % 32};
  return {half + ((0xD9EF >> (4 * at)) & 15), half + ((0xA036 >> (4 * at)) & 15)};
}
constexpr std::uint32_t scatter_code(DType type, std::uint32_t code, int place) {
  const CodePlace to = place_of_code(type, place);
  return (code >> 3) << to.sign | (code & 7) << to.rest;
}
constexpr std::uint32_t gather_code(DType type, std::uint32_t word, int place) {
  const CodePlace from = place_of_code(type, place);
  return (word >> from.sign & 1) << 3 | (word >> from.rest & 7);
}

/// How a scale is stored.
enum class ScaleKind : std::uint8_t { none, f32, bf16, f16, e4m3, e8m0, unknown };

constexpr ScaleKind scale_kind(const WeightFormat& format) {
  if (format.group == 0 || layout_of(format.dtype) == Layout::rows) return ScaleKind::none;
  if (format.dtype == DType::mxfp4) return ScaleKind::e8m0;
  if (format.dtype == DType::nvfp4) return ScaleKind::e4m3;
  switch (format.scale) {
    case DType::f32:
      return ScaleKind::f32;
    case DType::bf16:
      return ScaleKind::bf16;
    case DType::f16:
      return ScaleKind::f16;
    case DType::fp8:
      return ScaleKind::e4m3;
    case DType::int8:
    case DType::int4:
    case DType::nvfp4:
    case DType::mxfp4:
      break;
  }
  return ScaleKind::unknown;
}

constexpr int scale_bytes(ScaleKind kind) {
  switch (kind) {
    case ScaleKind::f32:
      return 4;
    case ScaleKind::bf16:
    case ScaleKind::f16:
      return 2;
    case ScaleKind::e4m3:
    case ScaleKind::e8m0:
      return 1;
    case ScaleKind::none:
    case ScaleKind::unknown:
      break;
  }
  return 0;
}

/// Columns that share a scale in one step of the tensor cores.
constexpr std::int64_t scale_step(DType type) { return type == DType::nvfp4 ? 16 : 32; }

/// Empty columns before a part that begins `phase` columns inside a scale group, so that groups begin where steps do.
/// 0 where groups are not made of whole steps.
constexpr std::int64_t lead_of(const WeightFormat& format, std::int64_t phase) {
  const std::int64_t step = scale_step(format.dtype);
  return scale_kind(format) != ScaleKind::none && format.group % step == 0 ? phase % step : 0;
}

/// Tiles of one matrix and scale groups of a row, for any phase that an even cut into parts of `cols` can give.
struct Tiling {
  std::int64_t row_tiles = 0, col_tiles = 0, groups = 0;
};

constexpr Tiling tiling_of(const WeightFormat& format, std::int64_t rows, std::int64_t cols) {
  const Layout layout = layout_of(format.dtype);
  const int wide = tile_cols(layout);
  Tiling out{ceil_div(rows, tile_rows), ceil_div(cols, wide), 0};
  if (scale_kind(format) == ScaleKind::none) return out;
  const std::int64_t last_phase = cols % format.group == 0 ? 0 : format.group - 1;
  const std::int64_t last_lead = cols % scale_step(format.dtype) == 0 ? 0 : lead_of(format, last_phase);
  out.col_tiles = ceil_div(last_lead + cols, wide);
  out.groups = (last_phase + out.col_tiles * wide - 1) / format.group + 1;
  return out;
}

/// Index of the scale of a row's group among those of one matrix: the 16 of a row tile together, rows g and g + 8 side
/// by side.
constexpr std::int64_t scale_place(std::int64_t groups, std::int64_t row, std::int64_t group) {
  return (row / tile_rows * groups + group) * tile_rows + row % 8 * 2 + row % tile_rows / 8;
}

}  // namespace specstep::cuda
