// Several runs with reported figures beside them.
#pragma once

#include "sim/report/result.h"

namespace specstep {

StudyResult run_study(const StudyConfig& study);

}  // namespace specstep
