// The page docs/accuracy.md: its words and its tables.
#pragma once

#include <string>

namespace specstep::comm {

/// `table` as in traces/comm/README.md, `configs` the folder of installed configs.
std::string accuracy_page(const std::string& table, const std::string& configs);

}  // namespace specstep::comm
