// Reading matrices of pairs. p2pBandwidthLatencyTest (NVIDIA/cuda-samples) prints connectivity, then bandwidths in one
// direction without and with peer access, then the same in both directions; each under a line that names it.
#include "comm/import/p2p_matrix.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "comm/import/words.h"
#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {
namespace {

constexpr double asymmetry_limit = 0.2;

struct Matrix {
  std::string title;  // the line above it; empty when there is none
  int line = 0;
  std::vector<int> lines;
  std::vector<std::vector<double>> cells;

  bool connectivity() const {
    return std::all_of(cells.begin(), cells.end(), [](const auto& row) {
      return std::all_of(row.begin(), row.end(), [](double x) { return x == 0 || x == 1; });
    });
  }
  bool named(std::string_view word) const { return title.find(word) != std::string::npos; }
};

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : lines_(word_lines(text)), file_(file) {}

  std::vector<Matrix> matrices() {
    std::vector<Matrix> found;
    std::string above;
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      const WordLine& line = lines_[i];
      if (line.words.empty()) continue;
      if (line.words[0].text != "D\\D") {
        above = joined(line);
        continue;
      }
      found.push_back(matrix(i, std::move(above)));
      i += found.back().cells.size();
      above.clear();
    }
    return found;
  }

 private:
  [[noreturn]] void refuse(int line, int column, const std::string& what, const std::string& allowed) const {
    throw InputError({{file_, line, column}, "", what, allowed});
  }

  static std::string joined(const WordLine& line) {
    std::string text;
    for (const Word& word : line.words) text += (text.empty() ? "" : " ") + word.text;
    return text;
  }

  double value(int line, const Word& word) const {
    double value = 0;
    const auto [end, error] = std::from_chars(word.text.data(), word.text.data() + word.text.size(), value);
    if (error != std::errc() || end != word.text.data() + word.text.size() || !std::isfinite(value) || value < 0)
      refuse(line, word.column, "'" + word.text + "' is not a bandwidth", "a number above 0, 10^9 bytes per second");
    return value;
  }

  Matrix matrix(std::size_t header, std::string title) const {
    Matrix m{std::move(title), lines_[header].number, {}, {}};
    const std::size_t count = lines_[header].words.size() - 1;
    if (count == 0) refuse(m.line, 1, "no GPUs", "a column for each GPU");
    for (std::size_t i = header + 1; i < lines_.size() && m.cells.size() < count; ++i) {
      const WordLine& row = lines_[i];
      if (row.words.empty() || row.words[0].text != std::to_string(m.cells.size()))
        refuse(row.number, row.words.empty() ? 1 : row.words[0].column, formatted("no row {}", m.cells.size()),
               formatted("{} rows", count));
      if (row.words.size() != count + 1)
        refuse(row.number, row.words.back().column, formatted("{} cells", row.words.size() - 1),
               formatted("{}, as in the header", count));
      std::vector<double> values;
      for (std::size_t c = 1; c <= count; ++c) values.push_back(value(row.number, row.words[c]));
      m.cells.push_back(std::move(values));
      m.lines.push_back(row.number);
    }
    if (m.cells.size() < count)
      refuse(m.lines.empty() ? m.line : m.lines.back(), 1, formatted("row {} is missing", m.cells.size()),
             formatted("{} rows", count));
    return m;
  }

  std::vector<WordLine> lines_;
  const std::string& file_;
};

void check_cells(const Matrix& m, const std::string& file) {
  const auto& v = m.cells;
  const auto refuse = [&](std::size_t row, const std::string& what, const std::string& allowed) {
    throw InputError({{file, m.lines[row], 1}, "", what, allowed});
  };
  for (std::size_t a = 0; a < v.size(); ++a)
    for (std::size_t b = 0; b < v.size(); ++b) {
      if (v[a][b] <= 0) refuse(a, formatted("{} to {} is {}", a, b, v[a][b]), "bandwidths above 0");
      const double larger = std::max(v[a][b], v[b][a]);
      if (b < a && std::abs(v[a][b] - v[b][a]) > asymmetry_limit * larger)
        refuse(a, formatted("{} to {} is {}, the other way {}", a, b, v[a][b], v[b][a]),
               "mirrored cells within 20 %: measure again, or compare single flows with fabric --measured");
    }
}

/// One direction with peer access, else the first of bandwidths.
const Matrix* chosen(const std::vector<Matrix>& all) {
  const Matrix* first = nullptr;
  for (const Matrix& m : all) {
    if (m.connectivity()) continue;
    if (m.named("Unidirectional") && m.named("P2P=Enabled")) return &m;
    if (!first) first = &m;
  }
  return first;
}

void note_choice(const Matrix& taken, const std::vector<Matrix>& all, P2pMatrix& matrix) {
  if (all.size() < 2 && taken.title.empty()) return;
  const std::string name = taken.title.empty() ? "the first of bandwidths" : "'" + taken.title + "'";
  matrix.notes.push_back(formatted("matrix taken: {}, line {}{}", name, taken.line,
                                   all.size() > 1 ? formatted(", of {}", all.size()) : ""));
  if (taken.named("P2P=Disabled"))
    matrix.notes.push_back("peer access was off in this matrix: its rates are those of copies through the host");
  if (taken.named("Bidirectional"))
    matrix.notes.push_back("both directions added up in this matrix: a link gives half of it in one direction");
}

}  // namespace

double P2pMatrix::rate(int a, int b) const {
  return std::max(gb_s[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)],
                  gb_s[static_cast<std::size_t>(b)][static_cast<std::size_t>(a)]);
}

double P2pMatrix::best_of(int gpu) const {
  double best = 0;
  for (int other = 0; other < size(); ++other)
    if (other != gpu) best = std::max(best, gb_s[static_cast<std::size_t>(gpu)][static_cast<std::size_t>(other)]);
  return best;
}

P2pMatrix parse_p2p_matrix(std::string_view text, const std::string& file) {
  const std::vector<Matrix> all = Reader(text, file).matrices();
  if (all.empty())
    throw InputError({{file, 1, 1}, "", "no line that begins with D\\D", "the output of p2pBandwidthLatencyTest"});
  const Matrix* taken = chosen(all);
  if (!taken)
    throw InputError({{file, all[0].lines[0], 1},
                      "",
                      "a matrix of zeros and ones tells who can reach whom",
                      "a matrix of bandwidths"});
  check_cells(*taken, file);
  P2pMatrix matrix{taken->cells, {}, {}};
  for (const Matrix& m : all) {
    if (!m.connectivity() || m.cells.size() != taken->cells.size() || !matrix.reach.empty()) continue;
    for (const auto& row : m.cells) {
      std::vector<bool> reach(row.size());
      std::transform(row.begin(), row.end(), reach.begin(), [](double cell) { return cell == 1; });
      matrix.reach.push_back(std::move(reach));
    }
  }
  note_choice(*taken, all, matrix);
  return matrix;
}

}  // namespace specstep::comm
