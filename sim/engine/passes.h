// The passes of a run: what is asked for, and what carrying it out gives. The benchmark asks; who answers may remember.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/engine/measured.h"

namespace specstep {

/// One pass of the whole batch, padded and launched as the engine does it.
struct PassRequest {
  PassShape shape;
  Launch launch = Launch::captured;
  bool draft_model = false;  // of the draft, else of the target
  bool operator==(const PassRequest&) const = default;
};

struct PassOutcome {
  PhaseResult phase;
  std::array<double, 4> by_source{};  // seconds, by comm::Provenance
  double extrapolated = 0;            // of these, outside the range that the numbers were checked in
  std::vector<std::string> notes;
  std::optional<DeviceTrace> device;
};

class PassSource {
 public:
  virtual ~PassSource() = default;
  /// Throws what the executor throws.
  virtual PassOutcome carry_out(const PassRequest& request) = 0;
};

/// The plan of a pass of this run.
Plan plan_of(const RunConfig& config, const PassRequest& request);
/// Carries out a prepared pass: once, or measure.warmup + measure.runs times where `repeats`; then the phase takes the
/// median, and its parts are those of a traced run scaled to it.
PassOutcome carry_out(const RunConfig& config, PreparedPlan& prepared, bool repeats);

/// Carries out every pass that is asked for.
class ExecutorPasses final : public PassSource {
 public:
  ExecutorPasses(const RunConfig& config, Executor& executor, const Progress& progress)
      : config_(config), executor_(executor), progress_(progress) {}
  PassOutcome carry_out(const PassRequest& request) override;

 private:
  const RunConfig& config_;
  Executor& executor_;
  const Progress& progress_;
};

double median(std::vector<double> values);

}  // namespace specstep
