// A number of the physical world with where it came from.
#pragma once

#include <string>

#include "model/base/describe.h"

namespace specstep {

/// In a file: `{value: 1792, source: "datasheet, page, date"}`, or a bare number (then the source is unknown).
struct Quantity {
  double value = 0;
  std::string source = no_source;
  bool fitted = false;  // true: obtained by fitting, and `source` says to what
  bool operator==(const Quantity&) const = default;

  static constexpr const char* no_source = "not given";
  /// False for a bare number, and for one whose source says that it is assumed.
  bool bare() const { return source == no_source; }
  bool has_source() const { return source != no_source && !source.starts_with("assumed"); }
};

template <>
struct Shorthand<Quantity> {
  static constexpr std::string_view scalar_key = "value";
  static constexpr std::string_view list_key = "";
};

void describe(Fields& f, Quantity& q);

/// For `check` overloads: the value of a quantity must lie in a range.
void check_range(Checker& c, const std::string& key, const Quantity& q, const Range& range);

}  // namespace specstep
