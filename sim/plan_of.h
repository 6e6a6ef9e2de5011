// The plan of one pass of a configured run.
#pragma once

#include "model/plan.h"
#include "sim/config.h"

namespace specstep {

/// Shape and plan as the benchmark would carry it out at the start of a generation, the prompt in the cache.
/// Throws InputError when the run has no such pass: verify, draft and extend need speculation.
Plan plan_of(const RunConfig& config, PassKind kind);

}  // namespace specstep
