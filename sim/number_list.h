// Lists of whole numbers as users write them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/describe.h"

namespace specstep {

/// "1,2,8"; "1:8" (every one); "1:64:8" (steps); "1:128:x2" (factors). Ascending, each once. Throws InputError that
/// names the option: no whole number, outside `range`, a step that does not grow, an end below the start, more than
/// 1000 numbers.
std::vector<std::int64_t> parse_number_list(const std::string& option, const std::string& text, const Range& range);

}  // namespace specstep
