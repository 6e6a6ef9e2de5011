#include "sim/engine/passes.h"

#include <algorithm>

#include "model/base/formatted.h"
#include "model/build_plan.h"
#include "sim/engine/phase.h"
#include "sim/plan_options.h"

namespace specstep {

namespace {

/// Untraced seconds of each counted run.
std::vector<double> measured(const MeasureSpec& measure, PreparedPlan& prepared) {
  std::vector<double> seconds;
  for (std::int64_t i = 0; i < measure.warmup; ++i) prepared.run(false);
  for (std::int64_t i = 0; i < measure.runs; ++i) seconds.push_back(prepared.run(false).seconds);
  return seconds;
}

/// A trace shows where the time goes; how much there is the untraced runs say.
void scale(Timeline& timeline, double seconds) {
  const double factor = timeline.seconds > 0 ? seconds / timeline.seconds : 0;
  timeline.seconds = seconds;
  for (double& part : timeline.parts) part *= factor;
  for (StepTime& span : timeline.spans) {
    span.seconds *= factor;
    span.gap *= factor;
  }
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Plan plan_of(const RunConfig& config, const PassRequest& request) {
  return request.draft_model ? build_draft_plan(*config.draft, config.parallel, request.shape, plan_options(config))
                             : build_plan(config.stack, config.parallel, request.shape, plan_options(config));
}

PassOutcome carry_out(const RunConfig& config, PreparedPlan& prepared, bool repeats) {
  std::vector<double> seconds;
  if (repeats) seconds = measured(config.measure, prepared);
  Timeline timeline = prepared.run(true);
  if (seconds.empty())
    seconds.push_back(timeline.seconds);
  else
    scale(timeline, median(seconds));
  PassOutcome out{phase_of(prepared, timeline, config.workload.batch), {}, 0, prepared.notes(), timeline.device};
  for (const StepTime& span : timeline.spans) {
    out.by_source[static_cast<std::size_t>(span.provenance)] += span.seconds + span.gap;
    if (span.extrapolated) out.extrapolated += span.seconds + span.gap;
  }
  out.phase.samples = std::move(seconds);
  return out;
}

PassOutcome ExecutorPasses::carry_out(const PassRequest& request) {
  const std::unique_ptr<PreparedPlan> prepared = executor_.prepare(plan_of(config_, request), request.launch);
  if (progress_)
    progress_(formatted("{}{} at {} tokens", request.draft_model ? "draft's " : "", name_of(request.shape.kind),
                        request.shape.context));
  return specstep::carry_out(config_, *prepared, executor_.measures());
}

}  // namespace specstep
