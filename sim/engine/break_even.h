// Why a cycle costs more than a decode step: the terms that decide whether speculation pays.
#pragma once

#include <string>
#include <vector>

#include "sim/report/result.h"

namespace specstep {

/// What a cycle takes beyond one plain decode step, by term, largest first; sums to cycle - step. Terms: each part of
/// the verify pass less that of the decode step ("verify moe"), the draft's passes ("draft steps", "extend") without
/// skew and host, and skew and host of all passes together. Empty when there is no verify phase.
std::vector<CycleTerm> cycle_terms(const std::vector<PhaseResult>& phases);

}  // namespace specstep
