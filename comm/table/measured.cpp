// Reading measured tables, and what can be said between their sizes.
//
// Outliers: the point whose value exceeds the straight line in the logarithms between its neighbours by the largest
// factor is marked when that factor is above 1.5; then the line is drawn without it, and so on. End points cannot be
// told.
#include "comm/table/measured.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {
namespace {

constexpr double outlier_factor = 1.5;

struct SizeColumn {
  std::size_t index = 0;
  double factor = 1;
};

SizeColumn size_column(const CsvTable& csv, const TableShape& shape) {
  if (csv.has("bytes")) return {csv.column("bytes"), 1};
  if (csv.has("mbytes")) return {csv.column("mbytes"), 1e6};
  if (csv.has("elements")) return {csv.column("elements"), static_cast<double>(shape.value_bytes)};
  if (csv.has("rows")) {
    if (shape.hidden <= 0)
      throw InputError(
          {{csv.file(), 1, 1}, "rows", "sizes are given in rows", "--hidden, the values of a row, as well"});
    return {csv.column("rows"), static_cast<double>(shape.hidden * shape.value_bytes)};
  }
  throw InputError({{csv.file(), 1, 1}, "", "no column of sizes", "bytes, elements, rows or mbytes"});
}

MeasuredPoint merged(std::int64_t bytes, std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const std::size_t n = seconds.size();
  const double median = n % 2 == 1 ? seconds[n / 2] : (seconds[n / 2 - 1] + seconds[n / 2]) / 2;
  return {bytes, median, seconds.front(), seconds.back(), static_cast<int>(n), false};
}

/// Index of the worst point above the line through its unmarked neighbours, or -1.
int worst_outlier(const std::vector<MeasuredPoint>& points) {
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (!points[i].outlier) open.push_back(i);
  int worst = -1;
  double most = outlier_factor;
  for (std::size_t k = 1; k + 1 < open.size(); ++k) {
    const MeasuredPoint& left = points[open[k - 1]];
    const MeasuredPoint& right = points[open[k + 1]];
    const MeasuredPoint& here = points[open[k]];
    const double line = line_at(static_cast<double>(here.bytes), static_cast<double>(left.bytes), left.seconds,
                                static_cast<double>(right.bytes), right.seconds);
    if (here.seconds <= most * line) continue;
    most = here.seconds / line;
    worst = static_cast<int>(open[k]);
  }
  return worst;
}

MeasuredCurve read_curve(const CsvTable& csv, std::size_t column, const SizeColumn& size) {
  std::map<std::int64_t, std::vector<double>> values;
  for (const CsvRow& row : csv.rows()) {
    if (row.cells[column].empty()) continue;
    const auto bytes = static_cast<std::int64_t>(std::llround(csv.number(row, size.index) * size.factor));
    const double seconds = csv.number(row, column) * us;
    if (bytes <= 0 || seconds <= 0)
      throw InputError({csv.place(row), csv.columns()[column], "not above 0", "sizes and times above 0"});
    values[bytes].push_back(seconds);
  }
  std::string name = csv.columns()[column];
  if (name.ends_with("_us")) name.resize(name.size() - 3);
  MeasuredCurve curve{name, {}};
  for (auto& [bytes, seconds] : values) curve.points.push_back(merged(bytes, std::move(seconds)));
  for (int i = worst_outlier(curve.points); i >= 0; i = worst_outlier(curve.points))
    curve.points[static_cast<std::size_t>(i)].outlier = true;
  return curve;
}

/// The one value of a column that describes the whole table; nothing when there is no such column.
std::optional<std::string> one_value(const CsvTable& csv, const std::string& name) {
  if (!csv.has(name) || csv.rows().empty()) return std::nullopt;
  const std::size_t column = csv.column(name);
  const std::string& first = csv.rows().front().cells[column];
  for (const CsvRow& row : csv.rows())
    if (row.cells[column] != first)
      throw InputError({csv.place(row), name, "'" + row.cells[column] + "', but '" + first + "' in the first row",
                        "one " + name + " in a table"});
  return first.empty() ? std::nullopt : std::optional(first);
}

void read_setting(const CsvTable& csv, MeasuredTable& table) {
  const auto wrong = [&](const char* name, const std::string& value, const std::string& allowed) {
    throw InputError({csv.place(csv.rows().front()), name, "'" + value + "'", allowed});
  };
  if (const auto mode = one_value(csv, "mode")) {
    if (*mode != "graph" && *mode != "eager") wrong("mode", *mode, "graph or eager");
    table.captured = *mode == "graph";
  }
  if (const auto ranks = one_value(csv, "ranks")) {
    const long long count = csv.whole(csv.rows().front(), csv.column("ranks"));
    if (count < 1 || count > 1024) wrong("ranks", *ranks, "1 to 1024");
    table.ranks = static_cast<int>(count);
  }
  if (const auto dtype = one_value(csv, "dtype")) {
    const auto names = EnumNames<DType>::names();
    const auto found = std::find(names.begin(), names.end(), *dtype);
    if (found == names.end()) wrong("dtype", *dtype, one_of(names));
    table.dtype = static_cast<DType>(found - names.begin());
  }
}

constexpr double falling = 0.75;  // largest message over smallest

void add_notes(const MeasuredCurve& curve, std::vector<std::string>& notes) {
  if (curve.points.size() > 1 && curve.points.back().seconds < falling * curve.points.front().seconds)
    notes.push_back(curve.name + ": times fall with size; cold starts are in the samples");
  double spread = 0;
  int repeated = 0;
  for (const MeasuredPoint& p : curve.points) {
    repeated += p.samples > 1 ? 1 : 0;
    spread = std::max(spread, p.spread());
    if (p.outlier)
      notes.push_back(formatted("{}: {} at {} is out of line with its neighbours and not used", curve.name,
                                seconds_text(p.seconds), bytes_text(static_cast<double>(p.bytes))));
  }
  if (repeated > 0)
    notes.push_back(formatted("{}: {} sizes are there several times; medians taken, largest spread {:.0f} %",
                              curve.name, repeated, 100 * spread));
}

}  // namespace

MeasuredTable measured_table(const CsvTable& csv, const TableShape& shape) {
  const SizeColumn size = size_column(csv, shape);
  MeasuredTable table{csv.file(), {}, {}};
  for (std::size_t c = 0; c < csv.columns().size(); ++c) {
    const std::string& name = csv.columns()[c];
    if (name != "us" && !name.ends_with("_us")) continue;
    table.curves.push_back(read_curve(csv, c, size));
    add_notes(table.curves.back(), table.notes);
  }
  if (table.curves.empty())
    throw InputError({{csv.file(), 1, 1}, "", "no column of times", "columns named us or ..._us, in microseconds"});
  if (csv.rows().empty()) throw InputError({{csv.file(), 1, 1}, "", "no rows", "at least one size"});
  read_setting(csv, table);
  return table;
}

Curve without_outliers(const MeasuredCurve& curve) {
  Curve plain{curve.name, {}};
  for (const MeasuredPoint& p : curve.points)
    if (!p.outlier) plain.points.emplace_back(p.bytes, p.seconds);
  return plain;
}

std::optional<double> interpolate(const MeasuredCurve& curve, double bytes) {
  return value_at(without_outliers(curve), bytes);
}

}  // namespace specstep::comm
