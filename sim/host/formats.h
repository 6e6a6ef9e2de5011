// What storing a number in a format does to it. Values stay floats; they are those that the format can hold.
#pragma once

#include <span>

#include "model/base/dtype.h"

namespace specstep::host {

/// Nearest number of the format, ties to even, clamped to its largest: bf16, f16, fp8 (e4m3, largest 448), the
/// four-bit types (nvfp4, mxfp4: e2m1, largest 6; int4: -7..7), int8 (-127..127). f32 leaves it as it is.
float rounded(float value, DType type);

/// Rounds a stretch of a row as it would be stored: a scale for each `group` values (counted from the stretch's
/// begin), stored in its own type, and codes. Without groups fp8 and int8 take one scale for the whole matrix, made
/// from `bound`, the largest magnitude that the matrix can hold.
///   int8, int4   scale = max / 127, max / 7
///   fp8          scale = max / 448
///   nvfp4        scale = e4m3(max / 6 / g) g with g = bound / (6 x 448) for the whole matrix (NVFP4's two levels)
///   mxfp4        scale = 2^(floor(log2 max) - 2) (OCP Microscaling 1.0, section 6.3)
void store(std::span<float> values, const WeightFormat& format, float bound);

}  // namespace specstep::host
