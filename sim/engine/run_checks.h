// What of an engine's settings does not go with the rest of a run.
#pragma once

#include "sim/config.h"

namespace specstep {

/// Reports settings of the engine that it would refuse for this model or this kind of drafts.
void check_engine(const RunConfig& config, Checker& c);

}  // namespace specstep
