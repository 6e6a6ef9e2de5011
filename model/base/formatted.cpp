// The one place that compiles fmt's formatting.
#include "model/base/formatted.h"

#include <fmt/format.h>

namespace specstep {

std::string vformatted(fmt::string_view format, fmt::format_args arguments) { return fmt::vformat(format, arguments); }

}  // namespace specstep
