// Reading comma-separated tables.
#include "comm/table/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "model/base/formatted.h"
#include "model/base/yaml.h"

namespace specstep::comm {
namespace {

constexpr std::size_t most_issues = 5;  // a file that is no table at all would name each of its lines

std::optional<std::vector<std::string>> split(std::string_view line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += '"';
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  if (quoted) return std::nullopt;
  return cells;
}

void require_unique(const std::vector<std::string>& columns, const std::string& file, Issues& issues) {
  for (std::size_t i = 0; i < columns.size(); ++i)
    if (std::find(columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(i), columns[i]) !=
        columns.begin() + static_cast<std::ptrdiff_t>(i))
      issues.push_back({{file, 1, 1}, columns[i], "column named twice", "distinct names"});
}

}  // namespace

CsvTable CsvTable::parse(std::string_view text, const std::string& file) {
  CsvTable table;
  table.file_ = file;
  Issues issues;
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty()) continue;
    const auto cells = split(line);
    if (!cells) {
      issues.push_back({{file, number, 1}, "", "a quote is not closed", "quotes in pairs"});
    } else if (table.columns_.empty()) {
      table.columns_ = *cells;
      require_unique(*cells, file, issues);
    } else if (cells->size() != table.columns_.size()) {
      issues.push_back({{file, number, 1},
                        "",
                        formatted("{} cells", cells->size()),
                        formatted("{}, as in the header", table.columns_.size())});
    } else {
      table.rows_.push_back({number, *cells});
    }
  }
  if (table.columns_.empty() && issues.empty()) issues.push_back({{file, 1, 1}, "", "empty", "a header line and rows"});
  if (issues.size() > most_issues) {
    const std::size_t more = issues.size() - most_issues;
    issues.resize(most_issues);
    issues.push_back({{file}, "", formatted("{} more lines like these", more), "a comma-separated table"});
  }
  throw_if_any(issues);
  return table;
}

CsvTable CsvTable::load(const std::string& path) { return parse(yaml::read_text(path), path); }

bool CsvTable::has(const std::string& name) const {
  return std::find(columns_.begin(), columns_.end(), name) != columns_.end();
}

std::size_t CsvTable::column(const std::string& name) const {
  const auto found = std::find(columns_.begin(), columns_.end(), name);
  if (found == columns_.end())
    throw InputError({{file_, 1, 1}, name, "no such column" + did_you_mean(name, columns_), one_of(columns_)});
  return static_cast<std::size_t>(found - columns_.begin());
}

double CsvTable::number(const CsvRow& row, std::size_t column) const {
  const std::string& text = row.cells[column];
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < 0)
    throw InputError({place(row), columns_[column], "'" + text + "' is not a number", "a number of at least 0"});
  return value;
}

long long CsvTable::whole(const CsvRow& row, std::size_t column) const {
  const double value = number(row, column);
  if (value != std::floor(value) || value > 9e15)
    throw InputError({place(row), columns_[column], "'" + row.cells[column] + "' is not whole", "a whole number"});
  return static_cast<long long>(value);
}

}  // namespace specstep::comm
