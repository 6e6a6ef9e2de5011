// One pass as the engine launches it, and means of them.
#include "sim/engine/pass_series.h"

#include <algorithm>
#include <numeric>

#include "model/base/units.h"
#include "sim/engine/launch.h"

namespace specstep {

namespace {

/// Contexts at which passes are carried out along a generation. Time is piecewise linear in the context (caches grow,
/// windows saturate), so the mean over a few evenly spaced points is the mean over all steps but for the kinks.
constexpr std::int64_t context_points = 5;

void add_part(PhaseResult& phase, Part part, double seconds) {
  phase.parts[static_cast<std::size_t>(part)] += seconds;
  phase.seconds += seconds;
  for (double& sample : phase.samples) sample += seconds;
}

}  // namespace

void add_weighted(PhaseResult& mean, const PhaseResult& one, double share) {
  mean.seconds += share * one.seconds;
  for (std::size_t i = 0; i < mean.samples.size(); ++i) mean.samples[i] += share * one.samples[i];
  mean.allreduce_seconds += share * one.allreduce_seconds;
  mean.in_situ_seconds += share * one.in_situ_seconds;
  mean.wait_seconds += share * one.wait_seconds;
  mean.host_seconds += share * one.host_seconds;
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
  out.seconds = out.allreduce_seconds = out.in_situ_seconds = out.wait_seconds = out.host_seconds = 0;
  out.samples.assign(one.samples.size(), 0);
  out.parts = {};
  out.cost = {};
  return out;
}

void add_host(PhaseResult& phase, double seconds) { add_part(phase, Part::host, seconds); }

PhaseResult PassSeries::once(const PassUse& use, std::int64_t context) {
  const LaunchChoice choice = choose_launch(config_, use.launched_as, config_.workload.batch);
  PassShape shape{use.kind, choice.padded_batch, use.tokens_each, context};
  // An executor that measures runs padding as sequences like the others: its plan has to say so.
  if (!measures_) shape.padding = choice.padded_batch - config_.workload.batch;
  PassOutcome out = source_.carry_out({shape, choice.launch, use.draft_model});
  for (const std::string& note : out.notes)
    if (std::find(notes_.begin(), notes_.end(), note) == notes_.end()) notes_.push_back(note);
  for (std::size_t i = 0; i < out.by_source.size(); ++i) by_source_[i] += use.times * out.by_source[i];
  extrapolated_ += use.times * out.extrapolated;
  if (!measures_) add_engine_time(out.phase, use);
  return std::move(out.phase);
}

std::map<std::string, double> PassSeries::provenance() const {
  const double all = std::accumulate(by_source_.begin(), by_source_.end(), 0.0);
  std::map<std::string, double> out;
  for (std::size_t i = 0; i < by_source_.size(); ++i)
    if (by_source_[i] > 0) out[EnumNames<comm::Provenance>::names()[i]] = by_source_[i] / all;
  if (extrapolated_ > 0) out["extrapolated"] = extrapolated_ / all;
  return out;
}

void PassSeries::add_engine_time(PhaseResult& phase, const PassUse& use) const {
  const bool captured = phase.launch == Launch::captured;
  const ParallelLayout& p = config_.parallel;
  const std::int64_t ranks = use.draft_model && p.draft_tensor > 0 ? p.draft_tensor : p.tensor;
  const std::optional<SkewSpec>& skew = config_.engine.skew;
  const double wait = skew && phase.allreduces > 0 ? expected_wait(*skew, captured, ranks) : 0;
  phase.wait_seconds = wait;
  phase.in_situ_seconds = phase.allreduces_in_layer > 0 ? phase.allreduce_seconds + wait : 0;
  add_part(phase, Part::skew, wait * static_cast<double>(phase.allreduces));
  const EngineHostSpec all = config_.engine.host();
  add_host(phase, use.host_launches * all.of(use.kind).seconds(phase.launch));
}

PhaseResult PassSeries::growing(const PassUse& use) {
  const std::int64_t first = config_.workload.prompt_tokens;
  const std::int64_t last = first + std::max<std::int64_t>(config_.workload.output_tokens - use.tokens_each, 0);
  PhaseResult mean;
  for (std::int64_t i = 0; i < context_points; ++i) {
    const std::int64_t context = first + (last - first) * i / (context_points - 1);
    // Trapezoid: the end points stand for half an interval each.
    const double share = (i == 0 || i == context_points - 1 ? 0.5 : 1.0) / (context_points - 1);
    PassUse weighted = use;
    weighted.times = share * use.times;
    const PhaseResult one = once(weighted, context);
    if (i == 0) mean = emptied(one);
    add_weighted(mean, one, share);
  }
  return mean;
}

}  // namespace specstep
