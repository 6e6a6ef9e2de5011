// The passes that a benchmark is put together from: carried out, padded and launched as the engine does it.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sim/executor.h"
#include "sim/report/result.h"

namespace specstep {

/// Told what is being done, for a progress line.
using Progress = std::function<void(const std::string&)>;

/// Which pass, and what a cycle or a step makes of it.
struct PassRequest {
  PassKind kind = PassKind::decode;
  std::int64_t tokens_each = 1;
  bool draft_model = false;
  PassKind launched_as = kind;  // whose launch it shares: drafts inside the graph of the verify pass
  double host_launches = 1;     // host launches that stand in front of it, a share where several passes are one launch
  double times = 1;             // how often the request runs it: its weight in the provenance
};

/// Carries out passes of one config. A price gets what an engine adds to it: host work in front of the pass and waits
/// for late ranks, both part of the pass's seconds. Measured passes get neither: their ranks wait for real.
class Passes {
 public:
  Passes(const RunConfig& config, Executor& executor, const Progress& progress);

  /// One pass at a context.
  PhaseResult once(const PassRequest& request, std::int64_t context);
  /// The mean over a generation whose context grows from the prompt on.
  PhaseResult growing(const PassRequest& request);

  std::size_t samples() const { return samples_; }
  /// Each note of the passes once, in order.
  const std::vector<std::string>& notes() const { return notes_; }
  /// Seconds of the request by source of the numbers, "extrapolated" overlapping them.
  const std::map<std::string, double>& time_by_source() const { return time_by_source_; }

 private:
  std::vector<double> measured(PreparedPlan& prepared) const;
  void note_sources(const Timeline& timeline, double weight);
  void add_engine_time(PhaseResult& phase, const PassRequest& request) const;

  const RunConfig& config_;
  Executor& executor_;
  const Progress& progress_;
  std::size_t samples_;
  std::vector<std::string> notes_;
  std::map<std::string, double> time_by_source_;
};

/// Middle value; the mean of the two middle ones of an even count.
double median(std::vector<double> values);

/// mean += share x one, in every number that is a mean of passes.
void add_weighted(PhaseResult& mean, const PhaseResult& one, double share);
/// A phase like `one` whose means are 0, to add to.
PhaseResult emptied(const PhaseResult& one);

/// Adds host time to a pass.
void add_host(PhaseResult& phase, double seconds);

}  // namespace specstep
