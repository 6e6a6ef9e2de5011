// One pass as the engine launches it, and means of them.
#include "sim/engine/passes.h"

#include <algorithm>

#include "model/base/formatted.h"
#include "model/base/units.h"
#include "model/build_plan.h"
#include "sim/engine/phase.h"
#include "sim/plan_options.h"

namespace specstep {

namespace {

/// Contexts at which passes are carried out along a generation. Time is piecewise linear in the context (caches grow,
/// windows saturate), so the mean over a few evenly spaced points is the mean over all steps but for the kinks.
constexpr std::int64_t context_points = 5;

/// A trace shows where the time goes; how much there is the untraced runs say.
void scale(Timeline& timeline, double seconds) {
  const double factor = timeline.seconds > 0 ? seconds / timeline.seconds : 0;
  timeline.seconds = seconds;
  for (double& part : timeline.parts) part *= factor;
  for (StepTime& span : timeline.spans) span.seconds *= factor;
}

void add_part(PhaseResult& phase, Part part, double seconds) {
  phase.parts[static_cast<std::size_t>(part)] += seconds;
  phase.seconds += seconds;
  for (double& sample : phase.samples) sample += seconds;
}

}  // namespace

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

void add_weighted(PhaseResult& mean, const PhaseResult& one, double share) {
  mean.seconds += share * one.seconds;
  for (std::size_t i = 0; i < mean.samples.size(); ++i) mean.samples[i] += share * one.samples[i];
  mean.allreduce_seconds += share * one.allreduce_seconds;
  mean.in_situ_seconds += share * one.in_situ_seconds;
  mean.wait_seconds += share * one.wait_seconds;
  for (std::size_t p = 0; p < part_count; ++p) mean.parts[p] += share * one.parts[p];
  mean.cost.flops += share * one.cost.flops;
  mean.cost.weight_bytes += share * one.cost.weight_bytes;
  mean.cost.kv_bytes += share * one.cost.kv_bytes;
  mean.cost.activation_bytes += share * one.cost.activation_bytes;
  mean.cost.comm_bytes += share * one.cost.comm_bytes;
  mean.cost.nodes += share * one.cost.nodes;
}

PhaseResult emptied(const PhaseResult& one) {
  PhaseResult out = one;
  out.seconds = out.allreduce_seconds = out.in_situ_seconds = out.wait_seconds = 0;
  out.samples.assign(one.samples.size(), 0);
  out.parts = {};
  out.cost = {};
  return out;
}

void add_host(PhaseResult& phase, double seconds) { add_part(phase, Part::host, seconds); }

Passes::Passes(const RunConfig& config, Executor& executor, const Progress& progress)
    : config_(config),
      executor_(executor),
      progress_(progress),
      samples_(executor.measures() ? static_cast<std::size_t>(config.measure.runs) : 1) {}

PhaseResult Passes::once(const PassRequest& request, std::int64_t context) {
  const LaunchChoice choice =
      choose_launch(config_.engine, request.launched_as, config_.workload.batch, config_.speculative());
  const PassShape shape{request.kind, choice.padded_batch, request.tokens_each, context};
  const PlanOptions options = plan_options(config_);
  Plan plan = request.draft_model ? build_draft_plan(*config_.draft, config_.parallel, shape, options)
                                  : build_plan(config_.stack, config_.parallel, shape, options);
  const std::unique_ptr<PreparedPlan> prepared = executor_.prepare(std::move(plan), choice.launch);
  if (progress_)
    progress_(formatted("{}{} at {} tokens", request.draft_model ? "draft's " : "", name_of(request.kind), context));
  std::vector<double> seconds = measured(*prepared);
  Timeline timeline = prepared->run(true);
  if (seconds.empty())
    seconds.push_back(timeline.seconds);
  else
    scale(timeline, median(seconds));
  for (const std::string& note : prepared->notes())
    if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(note);
  PhaseResult out = phase_of(*prepared, timeline, config_.workload.batch);
  out.samples = std::move(seconds);
  note_sources(timeline, request.times);
  if (!executor_.measures()) add_engine_time(out, request);
  return out;
}

/// Untraced seconds of each counted run; nothing when the executor gives the same time at every call.
std::vector<double> Passes::measured(PreparedPlan& prepared) const {
  std::vector<double> seconds;
  if (!executor_.measures()) return seconds;
  for (std::int64_t i = 0; i < config_.measure.warmup; ++i) prepared.run(false);
  for (std::int64_t i = 0; i < config_.measure.runs; ++i) seconds.push_back(prepared.run(false).seconds);
  return seconds;
}

void Passes::note_sources(const Timeline& timeline, double weight) {
  for (const StepTime& span : timeline.spans) {
    time_by_source_[name_of(span.provenance)] += weight * span.seconds;
    if (span.extrapolated) time_by_source_["extrapolated"] += weight * span.seconds;
  }
}

void Passes::add_engine_time(PhaseResult& phase, const PassRequest& request) const {
  const bool captured = phase.launch == Launch::captured;
  const ParallelLayout& p = config_.parallel;
  const std::int64_t ranks = request.draft_model && p.draft_tensor > 0 ? p.draft_tensor : p.tensor;
  const double wait = phase.allreduces > 0 ? expected_wait(config_.engine.skew, captured, ranks) : 0;
  phase.wait_seconds = wait;
  phase.in_situ_seconds = phase.allreduces_in_layer > 0 ? phase.allreduce_seconds + wait : 0;
  add_part(phase, Part::skew, wait * static_cast<double>(phase.allreduces));
  const HostWork& host = config_.engine.cycle.host.of(request.kind);
  add_host(phase, request.host_launches * (captured ? host.captured_us : host.eager_us).value * us);
}

PhaseResult Passes::growing(const PassRequest& request) {
  const std::int64_t first = config_.workload.prompt_tokens;
  const std::int64_t last = first + std::max<std::int64_t>(config_.workload.output_tokens - request.tokens_each, 0);
  PhaseResult mean;
  for (std::int64_t i = 0; i < context_points; ++i) {
    const std::int64_t context = first + (last - first) * i / (context_points - 1);
    // Trapezoid: the end points stand for half an interval each.
    const double share = (i == 0 || i == context_points - 1 ? 0.5 : 1.0) / (context_points - 1);
    PassRequest weighted = request;
    weighted.times = share * request.times;
    const PhaseResult one = once(weighted, context);
    if (i == 0) mean = emptied(one);
    add_weighted(mean, one, share);
  }
  return mean;
}

}  // namespace specstep
