// Text with values in it. fmt's grammar, checked while compiling; the formatting itself is compiled once, not in
// every file that uses it, which halves the build.
#pragma once

#include <fmt/core.h>

#include <string>

namespace specstep {

/// The work behind formatted().
std::string vformatted(fmt::string_view format, fmt::format_args arguments);

/// fmt::format, as in formatted("{:.1f} GiB of {}", need, have).
template <class... T>
std::string formatted(fmt::format_string<T...> format, T&&... arguments) {
  return vformatted(format, fmt::make_format_args(arguments...));
}

}  // namespace specstep
