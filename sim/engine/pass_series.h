// Means over the passes of a generation, with what an engine adds to each.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/engine/pass_notes.h"
#include "sim/engine/passes.h"

namespace specstep {

/// Which pass, and what a cycle or a step makes of it.
struct PassUse {
  PassKind kind = PassKind::decode;
  std::int64_t tokens_each = 1;
  bool draft_model = false;
  PassKind launched_as = kind;  // whose launch it shares: drafts inside the graph of the verify pass
  double host_launches = 1;     // host launches that stand in front of it, a share where several passes are one launch
  double times = 1;             // how often the request runs it: its weight in the provenance
};

/// Asks for the passes of one config. Priced passes get what an engine adds to them: host work in front of the pass and
/// waits for late ranks, both part of the pass's seconds. Measured ones get neither: their ranks wait for real.
class PassSeries {
 public:
  PassSeries(const RunConfig& config, PassSource& source, bool measures)
      : config_(config), source_(source), measures_(measures) {}

  /// One pass at a context.
  PhaseResult once(const PassUse& use, std::int64_t context);
  /// The mean over a generation whose context grows from the prompt on.
  PhaseResult growing(const PassUse& use);

  /// Each note of the passes once, in order; then what devices showed of them.
  std::vector<std::string> notes() const;
  /// Share of the request's time by source of the numbers; "extrapolated" overlaps them. Sources without time are
  /// absent.
  std::map<std::string, double> provenance() const;

 private:
  void add_engine_time(PhaseResult& phase, const PassUse& use) const;

  const RunConfig& config_;
  PassSource& source_;
  bool measures_;
  std::vector<std::string> notes_;
  PassNotes traced_;
  std::array<double, 4> by_source_{};  // seconds, by comm::Provenance
  double extrapolated_ = 0;
};

/// mean += share x one, in every number that is a mean of passes. Steps are added one by one; where one of the passes
/// has other steps, those of both stand behind each other.
void add_weighted(PhaseResult& mean, const PhaseResult& one, double share);
/// A phase like `one` whose means are 0, to add to.
PhaseResult emptied(const PhaseResult& one);

/// Adds host time to a pass.
void add_host(PhaseResult& phase, double seconds);

}  // namespace specstep
