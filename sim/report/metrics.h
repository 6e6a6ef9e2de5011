// The one table of metrics: name, unit, direction, definition.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace specstep {

enum class Better { higher, lower };

struct MetricRow {
  std::string_view name;
  std::string_view unit;
  Better better;
  std::string_view definition;
};

const std::vector<MetricRow>& metric_rows();
/// The row with this name, or nullptr.
const MetricRow* find_metric(std::string_view name);

}  // namespace specstep
