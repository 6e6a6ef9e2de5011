// The page docs/accuracy.md: its words and its tables.
#pragma once

#include <string>

namespace specstep::comm {

/// `tables` is the folder of traces/comm/README.md, `configs` that of installed configs.
std::string accuracy_page(const std::string& tables, const std::string& configs);

}  // namespace specstep::comm
