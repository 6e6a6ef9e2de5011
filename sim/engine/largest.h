// The largest number that still fits, for errors that say what would.
#pragma once

#include <cstdint>

namespace specstep {

/// The largest value of 1 to `most` for which fits(value) holds, 0 when it holds for none. It must hold for every value
/// below one for which it holds.
template <class Fits>
std::int64_t largest_that(std::int64_t most, Fits&& fits) {
  std::int64_t low = 0;
  std::int64_t high = most + 1;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low;
}

}  // namespace specstep
