// A model that carries out passes, wherever it computes: what generating tokens needs of it.
#pragma once

#include "model/plan.h"
#include "sim/host/pass_io.h"

namespace specstep::host {

/// A target or a draft on all its ranks.
class PassModel {
 public:
  virtual ~PassModel() = default;
  virtual const ModelView& view() const = 0;
  /// Makes what a plan needs and is not there yet: weights, schedules, captured graphs.
  virtual void prepare(const Plan& plan) = 0;
  /// Carries out a plan that was prepared.
  virtual PassOutput run(const Plan& plan, const PassInput& input) = 0;
  /// Commits nodes (ascending, each the child of the one before) of a sequence that has `base` committed tokens.
  virtual void keep(std::size_t sequence, std::int64_t base, const std::vector<int>& nodes) = 0;
  /// Forgets a sequence.
  virtual void clear(std::size_t sequence) = 0;
};

}  // namespace specstep::host
