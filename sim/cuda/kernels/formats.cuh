// Codes and scales of stored matrices on the device. Rounding is that of sim/host/formats.cpp, bit for bit.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "sim/cuda/kernels/product_layout.h"
#include "sim/cuda/kernels/stored.h"

namespace specstep::cuda {

/// What kernels need to know of a StoredMatrix.
struct StoredView {
  void* values = nullptr;
  void* scales = nullptr;
  float whole_scale = 1;
  DType type = DType::f32;
  ScaleKind scale = ScaleKind::none;
  std::int64_t group = 0, phase = 0, lead = 0;  // lead: tiles begin so many columns before the first
  std::int64_t count = 0, rows = 0, cols = 0;
  Tiling tiling{};
};

inline StoredView view_of(const StoredMatrix& m) {
  StoredView out{m.values, m.scales, m.whole_scale, m.format.dtype, scale_kind(m.format)};
  out.group = m.format.group, out.phase = m.phase, out.lead = lead_of(m.format, m.phase);
  out.count = m.count, out.rows = m.rows, out.cols = m.cols;
  out.tiling = tiling_of(m.format, m.rows, m.cols);
  return out;
}

/// Code of the nearest number of a small floating format (ties to even, clamped to the largest), without its sign:
/// exponent and mantissa side by side. A carry out of the mantissa counts up the exponent by itself.
template <int mantissa, int least_exponent, int largest_code>
__device__ inline std::uint32_t small_code(float value) {
  const std::uint32_t bits = __float_as_uint(value);
  const int exponent = max(static_cast<int>((bits >> 23) & 255) - 127, least_exponent);
  const float quanta = __uint_as_float(static_cast<std::uint32_t>(127 + mantissa - exponent) << 23);
  const int digits = static_cast<int>(rintf(fabsf(value) * quanta));
  return static_cast<std::uint32_t>(min(((exponent - least_exponent) << mantissa) + digits, largest_code));
}

__device__ inline std::uint32_t e4m3_code(float v) {
  return small_code<3, -6, 0x7E>(v) | (__float_as_uint(v) >> 31 << 7);
}
__device__ inline std::uint32_t e2m1_code(float v) { return small_code<1, 0, 7>(v) | (__float_as_uint(v) >> 31 << 3); }

/// The exponent lands in a float's lowest places; the product moves it where it belongs, subnormal numbers too.
__device__ inline float e4m3_value(std::uint32_t code) {
  return __uint_as_float(((code & 0x80) << 24) | ((code & 0x7F) << 20)) * 0x1p120F;
}
__device__ inline float e2m1_value(std::uint32_t code) {
  return __uint_as_float(((code & 8) << 28) | ((code & 7) << 22)) * 0x1p126F;
}
/// 2^(code - 127); 0 stands for a group of zeros.
__device__ inline float e8m0_value(std::uint32_t code) { return __uint_as_float(code << 23); }

__device__ inline float clamp_whole(float v, float most) { return fminf(fmaxf(rintf(v), -most), most); }
__device__ inline __half half_of(float v) { return __float2half_rn(fminf(fmaxf(v, -65504.0F), 65504.0F)); }

/// Code of a value that was divided by its scale. int4 is kept as a sign and a magnitude.
__device__ inline std::uint32_t code_of(float v, DType type) {
  switch (type) {
    case DType::fp8:
      return e4m3_code(v);
    case DType::int8:
      return static_cast<std::uint32_t>(static_cast<int>(clamp_whole(v, 127))) & 0xFF;
    case DType::int4: {
      const int whole = static_cast<int>(clamp_whole(v, 7));
      return static_cast<std::uint32_t>(whole < 0 ? 8 - whole : whole);
    }
    case DType::nvfp4:
    case DType::mxfp4:
      return e2m1_code(v);
    default:
      return 0;
  }
}

__device__ inline float value_of(std::uint32_t code, DType type) {
  switch (type) {
    case DType::fp8:
      return e4m3_value(code);
    case DType::int8:
      return static_cast<float>(static_cast<std::int8_t>(code));
    case DType::int4:
      return static_cast<float>(code & 8 ? -static_cast<int>(code & 7) : static_cast<int>(code));
    case DType::nvfp4:
    case DType::mxfp4:
      return e2m1_value(code);
    default:
      return 0;
  }
}

/// Nearest number of an unscaled type.
__device__ inline float rounded_plain(float v, DType type) {
  if (type == DType::bf16) return __bfloat162float(__float2bfloat16_rn(v));
  if (type == DType::f16) return __half2float(half_of(v));
  return v;
}

__device__ inline float load_scale(const void* scales, std::int64_t at, ScaleKind kind) {
  switch (kind) {
    case ScaleKind::f32:
      return static_cast<const float*>(scales)[at];
    case ScaleKind::bf16:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(scales)[at]);
    case ScaleKind::f16:
      return __half2float(static_cast<const __half*>(scales)[at]);
    case ScaleKind::e4m3:
      return e4m3_value(static_cast<const std::uint8_t*>(scales)[at]);
    case ScaleKind::e8m0:
      return e8m0_value(static_cast<const std::uint8_t*>(scales)[at]);
    default:
      return 1;
  }
}

/// Scale of a local row and column, all levels in one.
__device__ inline float scale_at(const StoredView& m, std::int64_t matrix, std::int64_t row, std::int64_t col) {
  if (m.scale == ScaleKind::none) return m.whole_scale;
  const std::int64_t each = m.tiling.row_tiles * m.tiling.groups * tile_rows;
  const std::int64_t place = scale_place(m.tiling.groups, row, (m.phase + col) / m.group);
  return load_scale(m.scales, matrix * each + place, m.scale) * m.whole_scale;
}

/// First byte of the tile that holds (row, col) of a matrix; columns are counted from the lead on.
__device__ inline std::uint8_t* tile_at(const StoredView& m, std::int64_t matrix, std::int64_t row, std::int64_t col) {
  const std::int64_t tile = (matrix * m.tiling.row_tiles + row / tile_rows) * m.tiling.col_tiles;
  return static_cast<std::uint8_t*>(m.values) + (tile + col / tile_cols(layout_of(m.type))) * tile_bytes;
}

/// One value of any stored matrix.
__device__ inline float value_at(const StoredView& m, std::int64_t matrix, std::int64_t row, std::int64_t col) {
  const std::int64_t plain = (matrix * m.rows + row) * m.cols + col;
  if (m.type == DType::f32) return static_cast<const float*>(m.values)[plain];
  if (m.type == DType::bf16) return __bfloat162float(static_cast<const __nv_bfloat16*>(m.values)[plain]);
  if (m.type == DType::f16) return __half2float(static_cast<const __half*>(m.values)[plain]);
  const Layout layout = layout_of(m.type);
  const int place =
      place_in_tile(layout, static_cast<int>(row % tile_rows), static_cast<int>((m.lead + col) % tile_cols(layout)));
  const std::uint8_t* tile = tile_at(m, matrix, row, m.lead + col);
  const std::uint32_t code =
      layout == Layout::bytes ? tile[place]
                              : gather_code(m.type, reinterpret_cast<const std::uint32_t*>(tile)[place / 8], place % 8);
  return value_of(code, m.type) * scale_at(m, matrix, row, col);
}

}  // namespace specstep::cuda
