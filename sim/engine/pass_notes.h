// What devices showed of traced passes, as notes: one line for each fact of a phase, with its range over the passes.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/report/result.h"

namespace specstep {

/// "decode"; of the draft model "draft's extend".
std::string pass_name(bool draft_model, PassKind kind);

/// What notes tell of one pass.
struct TracedPass {
  DeviceTrace trace;
  std::vector<std::int32_t> met;  // [routed layer]
  std::int64_t local_experts = 0;
  double expected = 0;  // of these
};

class PassNotes {
 public:
  /// One more pass of a phase, which the notes call `name`.
  void add(const std::string& name, const PhaseResult& pass, const DeviceTrace& trace);
  /// By phase, in the order in which these came. A figure in which passes differ is told as a range.
  std::vector<std::string> lines() const;

 private:
  std::vector<std::pair<std::string, std::vector<TracedPass>>> phases_;
};

}  // namespace specstep
