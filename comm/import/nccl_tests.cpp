// Reading nccl-tests. A row is: size count type redop [root] time algbw busbw wrong time algbw busbw wrong, where old
// versions have no root column and an error column for `wrong`.
//
// nccl-tests defines algorithm bandwidth as size / time and bus bandwidth as that times 2 (n - 1) / n for allreduce and
// (n - 1) / n for all-gather, reduce-scatter and all-to-all; so the ratio tells the collective and the ranks.
#include "comm/import/nccl_tests.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "comm/import/words.h"
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
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

/// nccl-tests' names of types, and ours where there is one.
const std::vector<std::pair<std::string, std::optional<DType>>>& types() {
  static const std::vector<std::pair<std::string, std::optional<DType>>> rows{
      {"float", DType::f32},    {"half", DType::f16},    {"bfloat16", DType::bf16}, {"int8", DType::int8},
      {"uint8", DType::int8},   {"f8e4m3", DType::fp8},  {"f8e5m2", DType::fp8},    {"fp8_e4m3", DType::fp8},
      {"fp8_e5m2", DType::fp8}, {"int32", std::nullopt}, {"uint32", std::nullopt},  {"int64", std::nullopt},
      {"uint64", std::nullopt}, {"double", std::nullopt}};
  return rows;
}

const std::pair<std::string, std::optional<DType>>* type_of(const std::string& name) {
  const auto found = std::find_if(types().begin(), types().end(), [&](const auto& row) { return row.first == name; });
  return found == types().end() ? nullptr : &*found;
}

/// Size, count and type: where a row begins, whatever comes after.
bool begins_a_row(const std::vector<Word>& words) {
  if (words.size() < 2 || !number(words[0].text) || !number(words[1].text)) return false;
  return words.size() == 2 || type_of(words[2].text) != nullptr;
}

std::optional<NcclTestTime> times(const std::vector<Word>& words, std::size_t at) {
  const auto us_ = number(words[at].text);
  const auto alg = number(words[at + 1].text);
  const auto bus = number(words[at + 2].text);
  if (!us_ || !alg || !bus) return std::nullopt;
  return NcclTestTime{*us_ * us, *alg, *bus};
}

struct Parsed {
  NcclTestRow row;
  std::string operation;
  double wrong = 0;  // values, or their largest error in old versions
  int wrong_column = 1;
};

/// Nothing when the line is no row of a table.
std::optional<Parsed> parse_row(const WordLine& line) {
  const std::vector<Word>& words = line.words;
  if (words.size() != 12 && words.size() != 13) return std::nullopt;
  const auto size = number(words[0].text);
  const auto count = number(words[1].text);
  if (!size || !count || *size < 1 || *size > 9e15 || *size != std::floor(*size)) return std::nullopt;
  const std::size_t first = words.size() == 13 ? 5 : 4;
  const auto out = times(words, first);
  const auto in = times(words, first + 4);
  if (!out || !in) return std::nullopt;
  Parsed parsed{{line.number, static_cast<std::int64_t>(*size), *out, *in}, words[3].text};
  const double ratio = out->seconds / in->seconds;
  parsed.row.disagree = ratio > disagreement || ratio < 1 / disagreement;
  for (const std::size_t at : {first + 3, first + 7}) {
    const double wrong = number(words[at].text).value_or(0);  // N/A: not validated
    if (wrong <= parsed.wrong) continue;
    parsed.wrong = wrong;
    parsed.wrong_column = words[at].column;
  }
  return parsed;
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
    if (!table.ranks) table.notes.push_back("bandwidths are too small to tell the number of ranks");
    return;
  }
  const double ratio = ratio_of(best.out_of_place);
  if (ratio < 0.98 || ratio >= 2)
    refuse(table.file, best.line, formatted("bus over algorithm bandwidth is {:.2f}: not an allreduce", ratio),
           "2 (n - 1) / n, from 1 on 2 ranks to below 2");
  if (!table.ranks) table.ranks = static_cast<int>(std::lround(2 / (2 - ratio)));
}

class Log {
 public:
  Log(std::string_view text, const std::string& file) : text_(text) { table_.file = file; }

  NcclTestTable read() {
    std::string_view rest = text_;
    for (const WordLine& line : word_lines(text_)) {
      const std::string_view whole = rest.substr(0, std::min(rest.find('\n'), rest.size()));
      rest.remove_prefix(std::min(whole.size() + 1, rest.size()));
      if (line.words.empty()) continue;
      line.words[0].text.starts_with('#') ? comment(line, whole) : row(line, whole);
    }
    if (begun_ && !ended_)
      left_out({{table_.file, 0, 0}, "", "the log ends without its summary: rows may be missing", "a whole log"});
    if (table_.rows.empty()) {
      throw_if_any(table_.left_out);
      refuse(table_.file, 1, "no rows of a table", "the output of all_reduce_perf");
    }
    if (listed_ranks_ > 0) table_.ranks = listed_ranks_;
    infer_ranks(table_);
    return std::move(table_);
  }

 private:
  void left_out(Issue issue) { table_.left_out.push_back(std::move(issue)); }
  Location at(const WordLine& line, int column) const { return {table_.file, line.number, column}; }

  void comment(const WordLine& line, std::string_view whole) {
    if (whole.find("Out of bounds values") != std::string_view::npos && whole.find("FAILED") != std::string_view::npos)
      refuse(table_.file, line.number,
             "the sums were wrong: '" + std::string(whole.substr(whole.find_first_not_of("# "))) + "'",
             "a run whose validation passed; none of its times can be used");
    ended_ = ended_ || whole.find("Avg bus bandwidth") != std::string_view::npos;
    for (std::size_t i = 0; i < line.words.size(); ++i) {
      const std::string& word = line.words[i].text;
      begun_ = begun_ || word == "nThread";
      if (word == "graph:" && i + 1 < line.words.size())
        table_.captured = number(line.words[i + 1].text).value_or(0) > 0;
      if (word == "Rank" && whole.find("Pid") != std::string_view::npos) ++listed_ranks_;
    }
  }

  void row(const WordLine& line, std::string_view whole) {
    const auto failure = std::min(whole.find("Test NCCL failure"), whole.find("Test CUDA failure"));
    if (failure != std::string_view::npos) {
      left_out({at(line, static_cast<int>(failure) + 1), "", "'" + std::string(whole.substr(failure, 80)) + "'",
                "a run that did not fail"});
      return;
    }
    const auto parsed = parse_row(line);
    if (!parsed) {
      if (begins_a_row(line.words))
        left_out({at(line, line.words[0].column), "", "a row that is cut or mixed with other output", "a whole row"});
      return;
    }
    if (parsed->operation == "none")
      refuse(table_.file, line.number,
             formatted("no operation, and bus over algorithm bandwidth is {:.2f}: not an allreduce",
                       ratio_of(parsed->row.out_of_place)),
             "the output of all_reduce_perf");
    if (parsed->wrong >= 1)
      left_out({at(line, parsed->wrong_column), "#wrong", formatted("{} values were wrong", parsed->wrong), "0"});
    else if (parsed->row.out_of_place.seconds <= 0)
      left_out({at(line, line.words[line.words.size() - 8].column), "time",
                formatted("{} us", parsed->row.out_of_place.seconds / us), "above 0"});
    else
      keep(*parsed, line.words[2].text);
  }

  void keep(const Parsed& parsed, const std::string& type) {
    const auto* known = type_of(type);
    if (known && table_.rows.empty()) table_.dtype = known->second;
    table_.rows.push_back(parsed.row);
    if (parsed.row.disagree)
      table_.notes.push_back(formatted("line {}: {} out of place and {} in place disagree", parsed.row.line,
                                       seconds_text(parsed.row.out_of_place.seconds),
                                       seconds_text(parsed.row.in_place.seconds)));
  }

  std::string_view text_;
  NcclTestTable table_;
  int listed_ranks_ = 0;
  bool begun_ = false;
  bool ended_ = false;
};

}  // namespace

NcclTestTable parse_nccl_tests(std::string_view text, const std::string& file) { return Log(text, file).read(); }

std::string NcclTestTable::csv() const {
  std::string head = "bytes,nccl_us";
  std::string tail;
  const auto add = [&](const char* name, const std::string& value) {
    head += std::string(",") + name;
    tail += "," + value;
  };
  if (captured) add("mode", *captured ? "graph" : "eager");
  if (ranks) add("ranks", std::to_string(*ranks));
  if (dtype) add("dtype", name_of(*dtype));
  std::string text = head + "\n";
  for (const NcclTestRow& row : rows)
    text += formatted("{},{:.6g}{}\n", row.bytes, row.out_of_place.seconds * 1e6, tail);
  return text;
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
