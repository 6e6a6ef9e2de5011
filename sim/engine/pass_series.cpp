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

void add_cost(Cost& mean, const Cost& one, double share) {
  mean.flops += share * one.flops;
  mean.weight_bytes += share * one.weight_bytes;
  mean.kv_bytes += share * one.kv_bytes;
  mean.activation_bytes += share * one.activation_bytes;
  mean.comm_bytes += share * one.comm_bytes;
  mean.nodes += share * one.nodes;
}

/// Whether two passes consist of the same steps, whatever their sizes.
bool same_steps(const PassSteps& a, const PassSteps& b) {
  const auto alike = [](const StepPlace& x, const StepPlace& y) { return x.layer == y.layer && x.row == y.row; };
  const auto of_kind = [](const StepRow& x, const StepRow& y) {
    return x.kind == y.kind && x.op.index() == y.op.index() && x.count == y.count;
  };
  return std::equal(a.rows.begin(), a.rows.end(), b.rows.begin(), b.rows.end(), of_kind) &&
         std::equal(a.order.begin(), a.order.end(), b.order.begin(), b.order.end(), alike);
}

/// Without time and work.
void empty_steps(PassSteps& steps) {
  for (StepRow& row : steps.rows) {
    row.seconds = 0;
    row.cost = {};
  }
  for (StepPlace& place : steps.order) place.seconds = 0;
}

/// Shows the sizes of `one` where its steps are the same.
void take_shapes(PassSteps& mean, const PassSteps& one) {
  if (!same_steps(mean, one)) return;
  for (std::size_t i = 0; i < one.rows.size(); ++i) mean.rows[i].op = one.rows[i].op;
}

void add_steps(PassSteps& mean, const PassSteps& one, double share) {
  std::size_t row = 0, place = 0;  // where those of `one` stand in the mean
  if (!same_steps(mean, one)) {
    row = mean.rows.size();
    place = mean.order.size();
    PassSteps more = one;
    empty_steps(more);
    for (StepPlace& p : more.order) p.row += static_cast<std::uint32_t>(row);
    mean.rows.insert(mean.rows.end(), more.rows.begin(), more.rows.end());
    mean.order.insert(mean.order.end(), more.order.begin(), more.order.end());
  }
  for (std::size_t i = 0; i < one.rows.size(); ++i) {
    mean.rows[row + i].seconds += share * one.rows[i].seconds;
    add_cost(mean.rows[row + i].cost, one.rows[i].cost, share);
  }
  for (std::size_t i = 0; i < one.order.size(); ++i) mean.order[place + i].seconds += share * one.order[i].seconds;
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
  add_cost(mean.cost, one.cost, share);
  add_steps(mean.steps, one.steps, share);
}

PhaseResult emptied(const PhaseResult& one) {
  PhaseResult out = one;
  out.seconds = out.allreduce_seconds = out.in_situ_seconds = out.wait_seconds = out.host_seconds = 0;
  out.samples.assign(one.samples.size(), 0);
  out.parts = {};
  out.cost = {};
  empty_steps(out.steps);
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
  if (out.device) traced_.add(pass_name(use.draft_model, use.kind), out.phase, *out.device);
  for (std::size_t i = 0; i < out.by_source.size(); ++i) by_source_[i] += use.times * out.by_source[i];
  extrapolated_ += use.times * out.extrapolated;
  if (!measures_) add_engine_time(out.phase, use);
  return std::move(out.phase);
}

std::vector<std::string> PassSeries::notes() const {
  std::vector<std::string> out = notes_;
  const std::vector<std::string> traced = traced_.lines();
  out.insert(out.end(), traced.begin(), traced.end());
  return out;
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
    if (i == context_points / 2) take_shapes(mean.steps, one.steps);
  }
  return mean;
}

}  // namespace specstep
