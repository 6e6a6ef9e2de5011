// The text of `specstep fabric`.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "comm/report/diagnosis.h"

namespace specstep::comm {

/// Drawing, standard patterns with their rates, and, where there are measurements, what looks broken.
std::string fabric_report(const Topology& topology, const std::vector<MeasuredRate>& measured);
/// specstep.fabric/1
nlohmann::ordered_json fabric_json(const Topology& topology, const std::vector<MeasuredRate>& measured);

}  // namespace specstep::comm
