// Measured allreduce tables: one column of sizes, one column of microseconds for each backend.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/table/crossover.h"
#include "comm/table/csv.h"
#include "model/base/dtype.h"

namespace specstep::comm {

/// One size of one backend. Repeated rows of a size are one point: the median, with their spread.
struct MeasuredPoint {
  std::int64_t bytes = 0;
  double seconds = 0;
  double low = 0;
  double high = 0;
  int samples = 1;
  bool outlier = false;  // far above what its neighbours say
  double spread() const { return seconds > 0 ? (high - low) / seconds : 0; }
};

struct MeasuredCurve {
  std::string name;
  std::vector<MeasuredPoint> points;  // ascending sizes
};

/// How to read sizes that are not bytes.
struct TableShape {
  std::int64_t hidden = 0;       // for a column `rows`: values of a row; 0: not given
  std::int64_t value_bytes = 2;  // of one value, for `rows` and `elements`
};

struct MeasuredTable {
  std::string file;
  std::vector<MeasuredCurve> curves;
  std::vector<std::string> notes;     // repeated sizes, outliers: one line each
  std::optional<bool> captured = {};  // column `mode`: graph or eager
  std::optional<int> ranks = {};      // column `ranks`
  std::optional<DType> dtype = {};    // column `dtype`
};

/// Sizes are a column `bytes`, `elements`, `rows` or `mbytes`; every column ending in `_us`, or named `us`, is a curve.
/// Columns `mode`, `ranks` and `dtype` say the same in every row what was measured. Blank cells are absent points.
/// Throws InputError with the place.
MeasuredTable measured_table(const CsvTable& csv, const TableShape& shape);

/// Seconds at a size, straight in the logarithms between neighbours that are no outliers; nothing outside the table.
std::optional<double> interpolate(const MeasuredCurve& curve, double bytes);

Curve without_outliers(const MeasuredCurve& curve);

}  // namespace specstep::comm
