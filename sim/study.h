// Several runs with reported figures beside them, and under each cause that could explain these.
#pragma once

#include "sim/report/study_result.h"

namespace specstep {

/// Prices every variant. A run whose engine would not start becomes an outcome with its error. Throws InputError, its
/// keys those of the study, for faults that only show when a run is carried out.
StudyResult run_study(const ReadStudy& study);

}  // namespace specstep
