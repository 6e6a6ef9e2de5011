// Formatting of quantities.
#include "model/base/units.h"

#include <cmath>
#include <cstdlib>

#include "model/base/formatted.h"

namespace specstep {

namespace {
/// Three significant digits, which is more than any prediction here deserves.
std::string three(double value) {
  const double size = std::abs(value);
  return formatted("{:.{}f}", value, size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}
}  // namespace

std::string bytes_text(double bytes) {
  if (bytes < kib) return formatted("{:.0f} B", bytes);
  if (bytes < mib) return three(bytes / kib) + " KiB";
  if (bytes < gib) return three(bytes / mib) + " MiB";
  return three(bytes / gib) + " GiB";
}

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return three(seconds * 1e6) + " us";
  if (seconds < 1) return three(seconds * 1e3) + " ms";
  return three(seconds) + " s";
}

std::string grouped(long long value) {
  std::string digits = std::to_string(std::llabs(value));
  for (std::ptrdiff_t at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<std::size_t>(at), ",");
  return (value < 0 ? "-" : "") + digits;
}

}  // namespace specstep
