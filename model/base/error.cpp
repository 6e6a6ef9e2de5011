// Formatting of faults, and the spelling help that goes with them.
#include "model/base/error.h"

#include <algorithm>
#include <numeric>

#include "model/base/formatted.h"
#include "model/base/printable.h"

namespace specstep {

std::string Location::text() const {
  if (line <= 0) return file;
  return formatted("{}:{}:{}", file, line, column);
}

std::string Issue::text() const {
  std::string out = at.text();
  if (!out.empty()) out += ": ";
  if (!key.empty()) out += key + ": ";
  out += what;
  if (!allowed.empty()) out += "; " + allowed;
  return printable(out, true);  // it may quote what a file holds
}

namespace {
std::string joined(const Issues& issues) {
  std::string out;
  for (std::size_t i = 0; i < std::min(issues.size(), most_shown_issues); ++i)
    out += (i > 0 ? "\n" : "") + issues[i].text();
  if (issues.size() > most_shown_issues) out += formatted("\nand {} more", issues.size() - most_shown_issues);
  return out;
}

std::size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}
}  // namespace

InputError::InputError(Issues issues) : Error(joined(issues)), issues_(std::move(issues)) {}

void throw_if_any(const Issues& issues) {
  if (!issues.empty()) throw InputError(issues);
}

std::string one_of(const std::vector<std::string>& names) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() ? " or " : ", ";
    out += names[i];
  }
  return out;
}

std::string did_you_mean(const std::string& typed, const std::vector<std::string>& names) {
  // Two letters, or a third of them, may be wrong, but not all; beyond that a guess confuses more than it helps.
  std::size_t best = std::min(std::max<std::size_t>(2, typed.size() / 3) + 1, typed.size());
  const std::string* found = nullptr;
  if (typed.size() > 64) return "";
  for (const std::string& name : names) {
    const std::size_t distance = edit_distance(typed, name);
    if (distance < best) {
      best = distance;
      found = &name;
    }
  }
  return found ? formatted(", did you mean '{}'?", *found) : "";
}

}  // namespace specstep
