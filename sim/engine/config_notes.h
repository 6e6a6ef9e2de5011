// What of a config a run does not read, or reads in a way that a reader may not expect.
#pragma once

#include <string>
#include <vector>

#include "sim/config.h"

namespace specstep {

/// Notes for any executor: keys that the method of speculation leaves unread, and what acceptance rests on where it is
/// counted.
std::vector<std::string> config_notes(const RunConfig& config);

}  // namespace specstep
