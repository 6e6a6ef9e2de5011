// Ranges and faults: what checks need. Apart from the reading of files, so that a part of the program that only knows
// configs does not hold a YAML reader.
#include "model/base/describe.h"

#include <cmath>

#include "model/base/formatted.h"

namespace specstep {

std::string Range::text() const {
  const bool low = std::isfinite(min);
  const bool high = std::isfinite(max);
  const std::string from = low ? formatted("{} {}", above_min ? "above" : "at least", min) : "";
  const std::string to = high ? formatted("at most {}", max) : "";
  return low && high ? from + " and " + to : from + to;
}

bool Range::holds(double value) const { return value <= max && (above_min ? value > min : value >= min); }

const Location& place_of(const std::string& key, const Sources& sources, const Location& fallback) {
  for (std::string k = key; !k.empty();) {
    const auto found = sources.find(k);
    if (found != sources.end()) return found->second;
    const std::size_t cut = k.find_last_of(".[");
    k = cut == std::string::npos ? "" : k.substr(0, cut);
  }
  return fallback;
}

void Checker::fail(const std::string& key, std::string what, std::string allowed) {
  const std::string full = prefix_.empty() || key.empty() || key.front() == '[' ? prefix_ + key : prefix_ + "." + key;
  issues_.push_back({place_of(full, sources_, fallback_), full, std::move(what), std::move(allowed)});
}

}  // namespace specstep
