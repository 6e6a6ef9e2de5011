// Passes of a configured run by kind and width, their plans made once.
#pragma once

#include <map>
#include <tuple>

#include "sim/executor.h"
#include "sim/host/pass_model.h"

namespace specstep::host {

class Runner {
 public:
  /// `draft` may be null. Both outlive the runner.
  Runner(const RunConfig& config, PassModel& target, PassModel* draft);

  /// Carries out a pass of the target, and adds its time to `time` unless null. A pass without `time` is none that an
  /// engine would run: its time counts as aside.
  PassOutput target(PassKind kind, std::int64_t tokens_each, const PassInput& input, Generation* time);
  PassOutput draft(PassKind kind, std::int64_t tokens_each, const PassInput& input, Generation* time);

  /// Seconds spent so far on what no engine does while it generates: making weights, passes of the teacher.
  double aside() const { return aside_; }

 private:
  PassOutput run(PassModel& model, PassKind kind, std::int64_t tokens_each, const PassInput& input, Generation* time);
  const Plan& plan(PassModel& model, PassKind kind, std::int64_t tokens_each);

  const RunConfig& config_;
  PassModel& target_;
  PassModel* draft_;
  std::map<std::tuple<bool, PassKind, std::int64_t>, Plan> plans_;
  double aside_ = 0;
};

}  // namespace specstep::host
