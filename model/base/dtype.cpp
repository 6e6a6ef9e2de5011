// Sizes of number formats.
#include "model/base/dtype.h"

namespace specstep {

double bytes_of(DType type) {
  switch (type) {
    case DType::f32:
      return 4;
    case DType::bf16:
    case DType::f16:
      return 2;
    case DType::fp8:
    case DType::int8:
      return 1;
    case DType::int4:
    case DType::nvfp4:
    case DType::mxfp4:
      return 0.5;
  }
  return 0;
}

double WeightFormat::bytes_per_value() const {
  return bytes_of(dtype) + (group > 0 ? bytes_of(scale) / static_cast<double>(group) : 0.0);
}

void describe(Fields& f, WeightFormat& w) {
  f.required("dtype", w.dtype, "type of a stored value");
  f.optional("group", w.group, "values that share one scale; 0 for none", {.min = 0, .max = 65536});
  f.optional("scale", w.scale, "type of a scale");
}

void check(const WeightFormat& w, Checker& c) {
  if (bytes_of(w.dtype) < 1 && w.group == 0)
    c.fail("group", "missing", name_of(w.dtype) + " needs scales: the number of values that share one");
  if (bytes_of(w.dtype) >= 2 && w.group > 0)
    c.fail("group", "has no meaning here", name_of(w.dtype) + " is stored without scales");
}

}  // namespace specstep
