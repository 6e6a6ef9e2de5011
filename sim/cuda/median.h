#pragma once

#include <algorithm>
#include <vector>

namespace specstep::cuda {

/// The middle one of some values; of an even number the upper of the two, of none 0.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace specstep::cuda
