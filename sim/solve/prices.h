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
  double accept_length = 1;         // that of the config
  std::vector<PhaseResult> phases;  // decode; verify, draft and extend where the run has them
  const PhaseResult* phase(PassKind kind) const;
  /// Tokens per second of a batch.
  double plain_tok_s(std::int64_t batch) const { return static_cast<double>(batch) / step; }
  double tok_s(std::int64_t batch) const { return static_cast<double>(batch) * accept_length / cycle; }
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

/// The same run with a batch and, for chains, another draft length, whose acceptance is the config's: what it gives by
/// a rule at any draft length is that rule's, what it gives for its own length is taken on by Acceptance::at. Without
/// acceptance, that of a run which accepts nothing.
RunConfig with(RunConfig config, std::int64_t batch, std::int64_t draft_length);

/// Whether the acceptance is told by a rule for any draft length.
bool told_at_any_length(const AcceptanceSpec& acceptance);

/// The constant chance of each of `drafts` drafts that gives an acceptance length; nothing above what they can give.
std::optional<double> rate_for(double accept_length, std::int64_t drafts);

}  // namespace specstep::solving
