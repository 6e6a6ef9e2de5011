// A carried-out plan as a row of the result.
#pragma once

#include "sim/executor.h"
#include "sim/report/result.h"

namespace specstep {

/// Time, parts, steps, work and collectives of one pass of `batch` sequences.
PhaseResult phase_of(const PreparedPlan& prepared, const Timeline& timeline, std::int64_t batch);

}  // namespace specstep
