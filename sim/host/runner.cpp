#include "sim/host/runner.h"

#include <chrono>

#include "model/build_plan.h"
#include "sim/plan_options.h"

namespace specstep::host {

namespace {
using Clock = std::chrono::steady_clock;
double since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }
}  // namespace

Runner::Runner(const RunConfig& config, PassModel& target, PassModel* draft)
    : config_(config), target_(target), draft_(draft) {}

PassOutput Runner::target(PassKind kind, std::int64_t tokens_each, const PassInput& input, Generation* time) {
  return run(target_, kind, tokens_each, input, time);
}

PassOutput Runner::draft(PassKind kind, std::int64_t tokens_each, const PassInput& input, Generation* time) {
  return run(*draft_, kind, tokens_each, input, time);
}

PassOutput Runner::run(PassModel& model, PassKind kind, std::int64_t tokens_each, const PassInput& input,
                       Generation* time) {
  const auto begin = Clock::now();
  const Plan& carried_out = plan(model, kind, tokens_each);
  const double preparing = since(begin);
  PassOutput out = model.run(carried_out, input);
  const double seconds = since(begin) - preparing;
  aside_ += preparing + (time ? 0 : seconds);
  // The draft's own prefill is part of the time to the first token, not of the target's prefill pass.
  if (time && !(model.view().draft && kind == PassKind::prefill)) {
    time->of(kind).seconds += seconds;
    ++time->of(kind).count;
  }
  return out;
}

const Plan& Runner::plan(PassModel& model, PassKind kind, std::int64_t tokens_each) {
  const auto key = std::make_tuple(model.view().draft, kind, tokens_each);
  const auto found = plans_.find(key);
  if (found != plans_.end()) return found->second;
  const std::int64_t context = kind == PassKind::prefill ? 0 : config_.workload.prompt_tokens;
  const PassShape shape{kind, config_.workload.batch, tokens_each, context};
  const PlanOptions options = plan_options(config_);
  Plan made = model.view().draft ? build_draft_plan(*config_.draft, config_.parallel, shape, options)
                                 : build_plan(config_.stack, config_.parallel, shape, options);
  model.prepare(made);
  return plans_.emplace(key, std::move(made)).first->second;
}

}  // namespace specstep::host
