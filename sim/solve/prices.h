// Prices of a run for many questions: each distinct pass is planned and priced once.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "sim/cost/executor.h"
#include "sim/engine/passes.h"

namespace specstep::solving {

/// Plans by pass, for runs that differ in numbers of the machine or in how collectives are carried, not in the stack,
/// the draft or the layout.
class PlanShelf {
 public:
  Plan plan(const RunConfig& config, const PassRequest& request);

 private:
  std::vector<std::pair<PassRequest, Plan>> plans_;
};

/// The steady state of a run at one context, seconds.
struct Point {
  double step = 0;                  // plain decode
  double cycle = 0;                 // 0 without speculation
  std::vector<PhaseResult> phases;  // decode; verify, draft and extend where the run has them
  const PhaseResult* phase(PassKind kind) const;
  /// Tokens per second of a batch; `length` the acceptance length.
  double plain_tok_s(std::int64_t batch) const { return static_cast<double>(batch) / step; }
  double tok_s(std::int64_t batch, double length) const { return static_cast<double>(batch) * length / cycle; }
  double break_even() const { return cycle / step; }
};

/// Prices passes of runs that share a machine, a stack, a draft, a layout and what carries collectives.
class Prices final : public PassSource {
 public:
  /// `shelf` outlives it.
  Prices(const RunConfig& config, PlanShelf& shelf) : executor_(config), shelf_(shelf) {}
  /// A run of that kind with `context` tokens of each sequence in the cache. Throws what run_benchmark throws.
  Point at(RunConfig config, std::int64_t context);
  PassOutcome carry_out(const PassRequest& request) override;
  /// See CostExecutor.
  void swap_collectives(Prices& other) { executor_.swap_collectives(other.executor_); }

 private:
  struct Known {
    PassRequest request;
    std::int64_t batch;
    PassOutcome outcome;
  };
  CostExecutor executor_;
  PlanShelf& shelf_;
  const RunConfig* asked_ = nullptr;  // while at() runs
  std::vector<Known> known_;
};

/// The same run with a batch and, for chains, another draft length, whose acceptance is the config's: chances beyond
/// those given repeat the last one. Without acceptance, that of a run which accepts nothing.
RunConfig with(RunConfig config, std::int64_t batch, std::int64_t draft_length);

/// Chance of each of `drafts` drafts given the ones before, from whatever the config gives at its own draft length.
std::vector<double> conditional_chances(const SpeculationSpec& speculation, std::int64_t drafts);

/// The constant chance of each of `drafts` drafts that gives an acceptance length; nothing above what they can give.
std::optional<double> rate_for(double accept_length, std::int64_t drafts);

}  // namespace specstep::solving
