// Number formats: of activations, and of stored weights with their scales.
#pragma once

#include <cstdint>

#include "model/base/describe.h"

namespace specstep {

enum class DType { f32, bf16, f16, fp8, int8, int4, nvfp4, mxfp4 };

template <>
struct EnumNames<DType> {
  static std::vector<std::string> names() { return {"f32", "bf16", "f16", "fp8", "int8", "int4", "nvfp4", "mxfp4"}; }
};

/// Bytes of one value, without scales (the four-bit types: half a byte).
double bytes_of(DType type);

/// How a weight matrix is stored: values, and a scale for each `group` of values along its input dimension.
struct WeightFormat {
  DType dtype = DType::bf16;
  std::int64_t group = 0;     // 0: no scales
  DType scale = DType::bf16;  // type of a scale
  bool operator==(const WeightFormat&) const = default;

  /// Bytes of one value with its share of the scale: int4 in groups of 32 with bf16 scales is 0.5625.
  double bytes_per_value() const;
};

template <>
struct Shorthand<WeightFormat> {
  static constexpr std::string_view scalar_key = "dtype";
  static constexpr std::string_view list_key = "";
};

void describe(Fields& f, WeightFormat& w);
void check(const WeightFormat& w, Checker& c);

}  // namespace specstep
