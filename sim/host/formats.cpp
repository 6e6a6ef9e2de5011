#include "sim/host/formats.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

namespace specstep::host {

namespace {

/// A small floating format: digits behind the point, exponent of the smallest normal number, largest number.
struct SmallFloat {
  int mantissa;
  int least_exponent;
  float largest;
};
constexpr SmallFloat half{10, -14, 65504};
constexpr SmallFloat e4m3{3, -6, 448};
constexpr SmallFloat e2m1{1, 0, 6};

float round_small(float value, const SmallFloat& f) {
  if (!std::isfinite(value) || value == 0) return value;
  const int exponent = std::max(std::ilogb(value), f.least_exponent);
  const float quantum = std::ldexp(1.0F, exponent - f.mantissa);
  return std::clamp(std::nearbyint(value / quantum) * quantum, -f.largest, f.largest);
}

float round_bf16(float value) {
  if (!std::isfinite(value)) return value;
  auto bits = std::bit_cast<std::uint32_t>(value);
  bits += 0x7FFF + ((bits >> 16) & 1);
  return std::bit_cast<float>(bits & 0xFFFF0000U);
}

float round_whole(float value, float largest) { return std::clamp(std::nearbyint(value), -largest, largest); }

/// Largest code of a type that needs a scale, or 0.
float largest_code(DType type) {
  switch (type) {
    case DType::int8:
      return 127;
    case DType::int4:
      return 7;
    case DType::fp8:
      return e4m3.largest;
    case DType::nvfp4:
    case DType::mxfp4:
      return e2m1.largest;
    case DType::f32:
    case DType::bf16:
    case DType::f16:
      break;
  }
  return 0;
}

float group_scale(float most, const WeightFormat& format, float bound) {
  if (format.dtype == DType::mxfp4) return std::ldexp(1.0F, std::ilogb(most) - 2);
  if (format.dtype == DType::nvfp4) {
    const float whole = bound / (e2m1.largest * e4m3.largest);
    return rounded(most / e2m1.largest / whole, DType::fp8) * whole;
  }
  return rounded(most / largest_code(format.dtype), format.scale);
}

void store_scaled(std::span<float> values, float scale, DType type) {
  for (float& v : values) v = scale > 0 ? rounded(v / scale, type) * scale : 0;
}

}  // namespace

float rounded(float value, DType type) {
  switch (type) {
    case DType::f32:
      return value;
    case DType::bf16:
      return round_bf16(value);
    case DType::f16:
      return round_small(value, half);
    case DType::fp8:
      return round_small(value, e4m3);
    case DType::int8:
      return round_whole(value, 127);
    case DType::int4:
      return round_whole(value, 7);
    case DType::nvfp4:
    case DType::mxfp4:
      return round_small(value, e2m1);
  }
  return value;
}

void store(std::span<float> values, const WeightFormat& format, float bound) {
  const float code = largest_code(format.dtype);
  if (code == 0) {
    for (float& v : values) v = rounded(v, format.dtype);
    return;
  }
  if (format.group == 0) return store_scaled(values, bound / code, format.dtype);
  const auto group = static_cast<std::size_t>(format.group);
  for (std::size_t begin = 0; begin < values.size(); begin += group) {
    const std::span<float> part = values.subspan(begin, std::min(group, values.size() - begin));
    float most = 0;
    for (const float v : part) most = std::max(most, std::fabs(v));
    store_scaled(part, most > 0 ? group_scale(most, format, bound) : 0, format.dtype);
  }
}

}  // namespace specstep::host
