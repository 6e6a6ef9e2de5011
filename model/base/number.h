// The spelling of numbers: narrower than YAML's, so that none can be misread.
#pragma once

#include <charconv>
#include <string_view>

namespace specstep {

/// Whether `s` is spelled as a decimal number: no leading zero, hex, octal, sexagesimal or thousands sign.
bool is_number(std::string_view s, bool integer);

/// The value of a number so spelled; false when it does not fit T.
template <class T>
bool parse_number(std::string_view s, T& value) {
  if (!s.empty() && s.front() == '+') s.remove_prefix(1);
  const auto [end, failed] = std::from_chars(s.data(), s.data() + s.size(), value);
  return failed == std::errc{} && end == s.data() + s.size();
}

}  // namespace specstep
