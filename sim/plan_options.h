// What a config asks of the plan builder.
#pragma once

#include "model/build_plan.h"
#include "sim/config.h"

namespace specstep {

/// The options of a run's plans. With comm.fusion, an allreduce is fused with the norm behind it where the backend that
/// carries it can; of a backend that a rule chooses, the choice for that message decides. Holds what it needs of the
/// config.
PlanOptions plan_options(const RunConfig& config);

}  // namespace specstep
