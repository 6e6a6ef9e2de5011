// One function for each question of solve.h. All prices come from `run_steps`, by way of Prices.
#pragma once

#include "sim/solve/prices.h"
#include "sim/solve/solve.h"

namespace specstep::solving {

/// What the questions share. `config` speculates, or holds a draft that costs nothing.
struct Study {
  const RunConfig& config;
  std::int64_t context = 0;
  bool has_acceptance = false;
  PlanShelf shelf{};
  Prices prices{config, shelf};
  Point base{};

  std::int64_t depth() const { return config.speculation.depth(); }
  std::int64_t batch() const { return config.workload.batch; }
  /// The run itself with another machine or another carrier of collectives.
  Point of(const RunConfig& variant, bool same_fabric = true);
};

SolveVerdict verdict(const Study& study);
SolveAllreduce allreduce_times(Study& study);
std::vector<BreakEvenRow> break_even(Study& study, const SolveOptions& options);
std::vector<DraftLengthRow> draft_lengths(Study& study, const SolveOptions& options);
/// Sorted; `inert` counts inputs that move nothing.
std::vector<SensitivityRow> sensitivity(Study& study, std::size_t& inert);
std::vector<BackendAnswer> backend_answers(Study& study);

}  // namespace specstep::solving
