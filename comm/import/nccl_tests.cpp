// Reading nccl-tests. A row is: size count type redop [root] time algbw busbw wrong time algbw busbw wrong, where old
// versions have no root column and an error column for `wrong`.
//
// nccl-tests defines algorithm bandwidth as size / time and bus bandwidth as that times 2 (n - 1) / n for allreduce and
// (n - 1) / n for all-gather, reduce-scatter and all-to-all; so the ratio tells the collective and the ranks.
#include "comm/import/nccl_tests.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "model/base/error.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {
namespace {

constexpr double disagreement = 1.5;
constexpr double precise_gb_s = 1;  // two decimals of anything smaller do not give a ratio

std::optional<double> number(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<NcclTestTime> times(const std::vector<std::string>& words, std::size_t at) {
  const auto us_ = number(words[at]);
  const auto alg = number(words[at + 1]);
  const auto bus = number(words[at + 2]);
  if (!us_ || !alg || !bus) return std::nullopt;
  return NcclTestTime{*us_ * us, *alg, *bus};
}

struct Parsed {
  NcclTestRow row;
  std::string operation;
};

/// Nothing when the line is no row of a table.
std::optional<Parsed> parse_row(const std::string& line, int number_of_line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  if (words.size() != 12 && words.size() != 13) return std::nullopt;
  const auto size = number(words[0]);
  const auto count = number(words[1]);
  if (!size || !count || *size < 1 || *size != std::floor(*size)) return std::nullopt;
  const std::size_t first = words.size() == 13 ? 5 : 4;
  const auto out = times(words, first);
  const auto in = times(words, first + 4);
  if (!out || !in) return std::nullopt;
  NcclTestRow row{number_of_line, static_cast<std::int64_t>(*size), *out, *in};
  const double ratio = out->seconds / in->seconds;
  row.disagree = ratio > disagreement || ratio < 1 / disagreement;
  return Parsed{row, words[3]};
}

[[noreturn]] void refuse(const std::string& file, int line, const std::string& what, const std::string& allowed) {
  throw InputError({{file, line, 1}, "", what, allowed});
}

double ratio_of(const NcclTestTime& t) { return t.algorithm_gb_s > 0 ? t.bus_gb_s / t.algorithm_gb_s : 0; }

void infer_ranks(NcclTestTable& table) {
  const NcclTestRow& best = *std::max_element(table.rows.begin(), table.rows.end(), [](const auto& a, const auto& b) {
    return a.out_of_place.algorithm_gb_s < b.out_of_place.algorithm_gb_s;
  });
  if (best.out_of_place.algorithm_gb_s < precise_gb_s) {
    table.notes.push_back("bandwidths are too small to tell the number of ranks");
    return;
  }
  const double ratio = ratio_of(best.out_of_place);
  if (ratio < 0.98 || ratio >= 2)
    refuse(table.file, best.line, formatted("bus over algorithm bandwidth is {:.2f}: not an allreduce", ratio),
           "2 (n - 1) / n, from 1 on 2 ranks to below 2");
  table.ranks = static_cast<int>(std::lround(2 / (2 - ratio)));
}

}  // namespace

NcclTestTable parse_nccl_tests(std::string_view text, const std::string& file) {
  NcclTestTable table;
  table.file = file;
  std::istringstream lines{std::string(text)};
  int number_of_line = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number_of_line;
    if (line.find("Out of bounds values") != std::string::npos && line.find("FAILED") != std::string::npos)
      refuse(file, number_of_line, "the sums were wrong: '" + line.substr(line.find_first_not_of("# ")) + "'",
             "a run whose validation passed; none of its times can be used");
    const auto parsed = parse_row(line, number_of_line);
    if (!parsed) continue;
    if (parsed->operation == "none")
      refuse(file, number_of_line,
             formatted("no operation, and bus over algorithm bandwidth is {:.2f}: not an allreduce",
                       ratio_of(parsed->row.out_of_place)),
             "the output of all_reduce_perf");
    table.rows.push_back(parsed->row);
    if (parsed->row.disagree)
      table.notes.push_back(formatted("line {}: {} out of place and {} in place disagree", number_of_line,
                                      seconds_text(parsed->row.out_of_place.seconds),
                                      seconds_text(parsed->row.in_place.seconds)));
  }
  if (table.rows.empty()) refuse(file, 1, "no rows of a table", "the output of all_reduce_perf");
  infer_ranks(table);
  return table;
}

MeasuredCurve NcclTestTable::curve() const {
  MeasuredCurve curve{"nccl", {}};
  for (const NcclTestRow& row : rows) {
    const double s = row.out_of_place.seconds;
    curve.points.push_back({row.bytes, s, s, s, 1, false});
  }
  return curve;
}

}  // namespace specstep::comm
