// Reading a matrix of pairs.
#include "comm/import/p2p_matrix.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {
namespace {

constexpr double asymmetry_limit = 0.2;

struct Row {
  int line = 0;
  std::vector<std::string> cells;
};

[[noreturn]] void refuse(const std::string& file, int line, const std::string& what, const std::string& allowed) {
  throw InputError({{file, line, 1}, "", what, allowed});
}

std::vector<Row> rows_of(std::string_view text) {
  std::vector<Row> rows;
  std::istringstream lines{std::string(text)};
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    std::istringstream words(line);
    Row row{number, {}};
    for (std::string word; words >> word;) row.cells.push_back(word);
    rows.push_back(std::move(row));
  }
  return rows;
}

double cell_value(const std::string& file, const Row& row, const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < 0)
    refuse(file, row.line, "'" + text + "' is not a bandwidth", "a number above 0, 10^9 bytes per second");
  return value;
}

void check_cells(const P2pMatrix& m, const std::string& file, const std::vector<int>& lines) {
  const auto& v = m.gb_s;
  const bool connectivity = std::all_of(v.begin(), v.end(), [](const auto& row) {
    return std::all_of(row.begin(), row.end(), [](double x) { return x == 0 || x == 1; });
  });
  if (connectivity)
    refuse(file, lines[0], "a matrix of zeros and ones tells who can reach whom", "a matrix of bandwidths");
  for (std::size_t a = 0; a < v.size(); ++a)
    for (std::size_t b = 0; b < v.size(); ++b) {
      if (v[a][b] <= 0) refuse(file, lines[a], formatted("{} to {} is {}", a, b, v[a][b]), "bandwidths above 0");
      const double larger = std::max(v[a][b], v[b][a]);
      if (b < a && std::abs(v[a][b] - v[b][a]) > asymmetry_limit * larger)
        refuse(file, lines[a], formatted("{} to {} is {}, the other way {}", a, b, v[a][b], v[b][a]),
               "mirrored cells within 20 %: measure again, or compare single flows with fabric --measured");
    }
}

}  // namespace

double P2pMatrix::best_of(int gpu) const {
  double best = 0;
  for (int other = 0; other < size(); ++other)
    if (other != gpu) best = std::max(best, gb_s[static_cast<std::size_t>(gpu)][static_cast<std::size_t>(other)]);
  return best;
}

P2pMatrix parse_p2p_matrix(std::string_view text, const std::string& file) {
  const std::vector<Row> rows = rows_of(text);
  const auto header =
      std::find_if(rows.begin(), rows.end(), [](const Row& r) { return !r.cells.empty() && r.cells[0] == "D\\D"; });
  if (header == rows.end()) refuse(file, 1, "no line that begins with D\\D", "the matrix of p2pBandwidthLatencyTest");
  const std::size_t count = header->cells.size() - 1;
  if (count == 0) refuse(file, header->line, "no GPUs", "a column for each GPU");
  P2pMatrix matrix;
  std::vector<int> lines;
  for (auto row = header + 1; row != rows.end() && matrix.gb_s.size() < count; ++row) {
    if (row->cells.empty() || row->cells[0] != std::to_string(matrix.gb_s.size()))
      refuse(file, row->line, formatted("no row {}", matrix.gb_s.size()), formatted("{} rows", count));
    if (row->cells.size() != count + 1)
      refuse(file, row->line, formatted("{} cells", row->cells.size() - 1), formatted("{}, as in the header", count));
    std::vector<double> values;
    for (std::size_t c = 1; c <= count; ++c) values.push_back(cell_value(file, *row, row->cells[c]));
    matrix.gb_s.push_back(std::move(values));
    lines.push_back(row->line);
  }
  if (matrix.gb_s.size() < count)
    refuse(file, lines.empty() ? header->line : lines.back(), formatted("row {} is missing", matrix.gb_s.size()),
           formatted("{} rows", count));
  check_cells(matrix, file, lines);
  return matrix;
}

}  // namespace specstep::comm
