// Reading lists of sizes.
#include "comm/report/sizes.h"

#include <charconv>
#include <cmath>
#include <sstream>

#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {
namespace {

constexpr std::size_t most_sizes = 1000;
constexpr double pack = 16;
constexpr double largest = 1024.0 * 1024 * 1024 * 1024;

[[noreturn]] void refuse(const std::string& text, const std::string& what) {
  throw InputError({{"--bytes"}, text, what, "as in 14336,43008 or 1K:1M:x2 or 1K:64K:1K"});
}

double number(const std::string& text, std::string_view part) {
  double value = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
  if (error != std::errc() || !std::isfinite(value)) refuse(text, "'" + std::string(part) + "' is no size");
  const std::string_view suffix(end, static_cast<std::size_t>(part.data() + part.size() - end));
  const double unit = suffix.empty()                     ? 1
                      : suffix == "K" || suffix == "KiB" ? 1024
                      : suffix == "M" || suffix == "MiB" ? 1024.0 * 1024
                      : suffix == "G" || suffix == "GiB" ? 1024.0 * 1024 * 1024
                                                         : 0;
  if (unit == 0) refuse(text, "'" + std::string(part) + "' is no size");
  return value * unit;
}

std::int64_t size(const std::string& text, std::string_view part) {
  const double value = number(text, part);
  if (value < 1 || value > largest || value != std::floor(value))
    refuse(text, "'" + std::string(part) + "' is no whole number of bytes above 0");
  return static_cast<std::int64_t>(value);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

void append_range(const std::string& text, const std::vector<std::string>& parts, std::vector<std::int64_t>& sizes) {
  if (parts.size() > 3) refuse(text, "more than start, end and step");
  const std::int64_t end = size(text, parts[1]);
  const bool factor = parts.size() == 2 || parts[2].starts_with('x');
  const double step = parts.size() == 2 ? 2
                      : factor          ? number(text, std::string_view(parts[2]).substr(1))
                                        : number(text, parts[2]);
  if (factor ? step <= 1 : step < 1) refuse(text, "a step that does not grow");
  const std::int64_t start = size(text, parts[0]);
  if (end < start) refuse(text, "the end is below the start");
  double at = static_cast<double>(start);
  while (at <= static_cast<double>(end)) {
    // Factors give odd sizes that no backend of 16-byte packs can carry; sizes and steps as written stay as they are.
    const bool generated = factor && at > static_cast<double>(start) && at >= pack;
    const double rounded = generated ? std::floor(at / pack) * pack : at;
    const auto next = static_cast<std::int64_t>(std::llround(rounded));
    at = factor ? at * step : at + step;
    if (sizes.empty() || sizes.back() != next) sizes.push_back(next);
    if (sizes.size() > most_sizes) refuse(text, formatted("more than {} sizes", most_sizes));
  }
}

}  // namespace

std::vector<std::int64_t> parse_sizes(const std::string& text) {
  std::vector<std::int64_t> sizes;
  if (text.ends_with(':') || text.ends_with(',')) refuse(text, "an empty entry");
  for (const std::string& part : split(text, ',')) {
    const std::vector<std::string> range = split(part, ':');
    if (range.empty()) refuse(text, "an empty entry");
    if (range.size() == 1)
      sizes.push_back(size(text, range[0]));
    else
      append_range(text, range, sizes);
  }
  if (sizes.empty()) refuse(text, "no size");
  return sizes;
}

}  // namespace specstep::comm
