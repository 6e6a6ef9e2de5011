// The benchmark reads as the request does: prefill, decode, and with speculation the cycle.
#include "sim/engine/benchmark.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "model/base/formatted.h"
#include "model/base/units.h"
#include "model/build_plan.h"
#include "sim/engine/config_notes.h"
#include "sim/engine/phase.h"
#include "sim/plan_options.h"

namespace specstep {

namespace {

/// Contexts at which passes are carried out along a generation. Time is piecewise linear in the context (caches grow,
/// windows saturate), so the mean over a few evenly spaced points is the mean over all steps but for the kinks.
constexpr std::int64_t context_points = 5;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

class Benchmark {
 public:
  Benchmark(const RunConfig& config, Executor& executor, const Progress& progress)
      : config_(config),
        executor_(executor),
        progress_(progress),
        samples_(executor.measures() ? static_cast<std::size_t>(config.measure.runs) : 1) {
    result_.executor = executor.name();
    result_.config = config;
  }

  RunResult run() {
    check_memory();
    prefill();
    decode();
    if (config_.speculative()) cycle();
    whole_request();
    memory_and_graphs();
    finish_provenance();
    of_executor();
    return std::move(result_);
  }

 private:
  PlanOptions options() const { return plan_options(config_); }
  std::int64_t verify_tokens() const { return config_.speculation.verify_tokens(); }

  /// Carries out one pass and notes where its time went, weighted into the provenance.
  PhaseResult pass(PassKind kind, std::int64_t tokens_each, std::int64_t context, double weight, bool draft_model) {
    const LaunchChoice choice = choose_launch(config_.engine, kind, config_.workload.batch, config_.speculative());
    const PassShape shape{kind, choice.padded_batch, tokens_each, context};
    Plan plan = draft_model ? build_draft_plan(*config_.draft, config_.parallel, shape, options())
                            : build_plan(config_.stack, config_.parallel, shape, options());
    const std::unique_ptr<PreparedPlan> prepared = executor_.prepare(std::move(plan), choice.launch);
    if (progress_) progress_(formatted("{}{} at {} tokens", draft_model ? "draft's " : "", name_of(kind), context));
    std::vector<double> seconds = measured(*prepared);
    Timeline timeline = prepared->run(true);
    if (seconds.empty())
      seconds.push_back(timeline.seconds);
    else
      scale(timeline, median(seconds));
    for (const std::string& note : prepared->notes())
      if (std::find(result_.notes.begin(), result_.notes.end(), note) == result_.notes.end())
        result_.notes.push_back(note);
    for (const StepTime& span : timeline.spans) {
      time_by_source_[name_of(span.provenance)] += weight * span.seconds;
      if (span.extrapolated) time_by_source_["extrapolated"] += weight * span.seconds;
    }
    PhaseResult out = phase_of(*prepared, timeline, config_.workload.batch);
    out.samples = std::move(seconds);
    return out;
  }

  /// Untraced seconds of each counted run; nothing when the executor gives the same time at every call.
  std::vector<double> measured(PreparedPlan& prepared) const {
    std::vector<double> seconds;
    if (!executor_.measures()) return seconds;
    for (std::int64_t i = 0; i < config_.measure.warmup; ++i) prepared.run(false);
    for (std::int64_t i = 0; i < config_.measure.runs; ++i) seconds.push_back(prepared.run(false).seconds);
    return seconds;
  }

  /// A trace shows where the time goes; how much there is the untraced runs say.
  static void scale(Timeline& timeline, double seconds) {
    const double factor = timeline.seconds > 0 ? seconds / timeline.seconds : 0;
    timeline.seconds = seconds;
    for (double& part : timeline.parts) part *= factor;
    for (StepTime& span : timeline.spans) span.seconds *= factor;
  }

  /// A pass repeated `times` over a generation whose context grows from the prompt on; the mean of all repeats.
  PhaseResult growing_pass(PassKind kind, std::int64_t tokens_each, double times, bool draft_model) {
    const std::int64_t first = config_.workload.prompt_tokens;
    const std::int64_t last = first + std::max<std::int64_t>(config_.workload.output_tokens - tokens_each, 0);
    PhaseResult mean;
    for (std::int64_t i = 0; i < context_points; ++i) {
      const std::int64_t context = first + (last - first) * i / (context_points - 1);
      // Trapezoid: the end points stand for half an interval each.
      const double share = (i == 0 || i == context_points - 1 ? 0.5 : 1.0) / (context_points - 1);
      const PhaseResult one = pass(kind, tokens_each, context, share * times, draft_model);
      if (i == 0) {
        mean = one;
        mean.seconds = mean.allreduce_seconds = mean.in_situ_seconds = 0;
        mean.samples.assign(samples_, 0);
        mean.parts = {};
        mean.cost = {};
      }
      add_weighted(mean, one, share);
    }
    return mean;
  }

  static void add_weighted(PhaseResult& mean, const PhaseResult& one, double share) {
    mean.seconds += share * one.seconds;
    for (std::size_t i = 0; i < mean.samples.size(); ++i) mean.samples[i] += share * one.samples[i];
    mean.allreduce_seconds += share * one.allreduce_seconds;
    mean.in_situ_seconds += share * one.in_situ_seconds;
    for (std::size_t p = 0; p < part_count; ++p) mean.parts[p] += share * one.parts[p];
    mean.cost.flops += share * one.cost.flops;
    mean.cost.weight_bytes += share * one.cost.weight_bytes;
    mean.cost.kv_bytes += share * one.cost.kv_bytes;
    mean.cost.activation_bytes += share * one.cost.activation_bytes;
    mean.cost.comm_bytes += share * one.cost.comm_bytes;
    mean.cost.nodes += share * one.cost.nodes;
  }

  void prefill() {
    const PhaseResult target = pass(PassKind::prefill, config_.workload.prompt_tokens, 0, 1, false);
    ttft_ = target.samples;
    if (config_.drafts_with_model())
      add(ttft_, 1, pass(PassKind::prefill, config_.workload.prompt_tokens, 0, 1, true).samples);
    put("prefill.pass_ms", [&](std::size_t i) { return target.samples[i] / ms; });
    put("ttft_ms", [&](std::size_t i) { return ttft_[i] / ms; });
    result_.phases.push_back(target);
  }

  void decode() {
    const double steps = config_.speculative() ? 0 : static_cast<double>(config_.workload.output_tokens - 1);
    PhaseResult step = growing_pass(PassKind::decode, 1, steps, false);
    step.passes_per_cycle = config_.speculative() ? 0 : 1;
    step_ = step.samples;
    put("decode.step_ms", [&](std::size_t i) { return step_[i] / ms; });
    put("decode.tok_s", [&](std::size_t i) { return batch() / step_[i]; });
    put("decode.tok_s_per_user", [&](std::size_t i) { return 1 / step_[i]; });
    if (!config_.speculative()) put_allreduce(step);
    result_.phases.push_back(step);
  }

  void cycle() {
    if (!config_.speculation.acceptance)
      throw InputError({{}, "speculation.acceptance", "missing", "how many drafts are accepted: they are only priced"});
    const double length = accept_length(*config_.speculation.acceptance, config_.speculation.depth());
    cycles_ = static_cast<double>(config_.workload.output_tokens - 1) / length;
    PhaseResult verify = growing_pass(PassKind::verify, verify_tokens(), cycles_, false);
    verify.passes_per_cycle = 1;
    cycle_ = verify.samples;
    if (config_.drafts_with_model()) draft_passes();
    put("verify.pass_ms", [&](std::size_t i) { return verify.samples[i] / ms; });
    put_allreduce(verify);
    put("speculative.cycle_ms", [&](std::size_t i) { return cycle_[i] / ms; });
    put("speculative.accept_length", [&](std::size_t) { return length; });
    put("speculative.tok_s", [&](std::size_t i) { return batch() * length / cycle_[i]; });
    put("speculative.tok_s_per_user", [&](std::size_t i) { return length / cycle_[i]; });
    put("speculative.speedup", [&](std::size_t i) { return length / cycle_[i] * step_[i]; });
    put("speculative.break_even_accept_length", [&](std::size_t i) { return cycle_[i] / step_[i]; });
    result_.phases.push_back(verify);
  }

  void draft_passes() {
    const auto steps = static_cast<double>(config_.speculation.depth() - 1);
    PhaseResult draft = growing_pass(PassKind::draft, config_.speculation.draft_width(), cycles_ * steps, true);
    draft.passes_per_cycle = steps;
    PhaseResult extend = growing_pass(PassKind::extend, verify_tokens(), cycles_, true);
    extend.passes_per_cycle = 1;
    add(cycle_, steps, draft.samples);
    add(cycle_, 1, extend.samples);
    put("draft.pass_ms", [&](std::size_t i) { return draft.samples[i] / ms; });
    result_.phases.push_back(draft);
    result_.phases.push_back(extend);
  }

  void whole_request() {
    const auto rest = static_cast<double>(config_.workload.output_tokens - 1);
    const auto rate = [&](std::size_t i) {
      const double decode_time = config_.speculative() ? cycles_ * cycle_[i] : rest * step_[i];
      return static_cast<double>(config_.workload.output_tokens) / (ttft_[i] + decode_time);
    };
    put("benchmark.tok_s", [&](std::size_t i) { return rate(i) * batch(); });
    put("benchmark.tok_s_per_user", rate);
    put("benchmark.seconds",
        [&](std::size_t i) { return static_cast<double>(config_.workload.output_tokens) / rate(i); });
  }

  void memory_and_graphs() {
    double weights = weight_memory(config_.stack, config_.parallel);
    if (config_.drafts_with_model()) weights += weight_memory(*config_.draft, config_.parallel);
    put("memory.weights_gib", weights / gib);
    const PassKind main = config_.speculative() ? PassKind::verify : PassKind::decode;
    const LaunchChoice choice = choose_launch(config_.engine, main, config_.workload.batch, config_.speculative());
    put("graph.count", static_cast<double>(captured_batches(config_.engine, config_.speculative()).size()));
    put("graph.padded_batch", static_cast<double>(choice.padded_batch));
    if (choice.launch == Launch::eager) note_eager(main);
  }

  void note_eager(PassKind kind) {
    const std::int64_t batch = config_.workload.batch;
    if (config_.engine.phases.of(kind) == Launch::eager)
      return result_.notes.push_back(formatted("{} runs eagerly: engine.phases says so", name_of(kind)));
    const std::vector<std::int64_t> sizes = captured_batches(config_.engine, config_.speculative());
    result_.notes.push_back(
        formatted("{} runs eagerly at batch {}: with graph.max_batch {} the largest size this engine captures is {}",
                  name_of(kind), batch, config_.engine.graph.max_batch, sizes.empty() ? 0 : sizes.back()));
  }

  /// An engine would not start: its weights alone exceed the GPU.
  void check_memory() const {
    double weights = weight_memory(config_.stack, config_.parallel);
    if (config_.drafts_with_model()) weights += weight_memory(*config_.draft, config_.parallel);
    const double have = config_.machine.gpu.memory_gib.value;
    if (weights / gib > have)
      throw Error(
          formatted("Not enough memory: the weights need {:.1f} GiB on each GPU, which has {:.1f} GiB; more ranks "
                    "(parallel.tensor), "
                    "smaller weight formats or a larger GPU would fit",
                    weights / gib, have));
  }

  void finish_provenance() {
    double all = 0;
    for (const std::string& source : EnumNames<comm::Provenance>::names()) all += time_by_source_[source];
    for (const auto& [source, seconds] : time_by_source_) result_.provenance[source] = all > 0 ? seconds / all : 0;
  }

  void put_allreduce(const PhaseResult& phase) {
    if (phase.allreduces_in_layer > 0) put("allreduce.isolated_us", phase.allreduce_seconds / us);
    if (phase.in_situ_seconds > 0) put("allreduce.in_situ_us", phase.in_situ_seconds / us);
  }

  void put(const std::string& name, double value) {
    put(name, [value](std::size_t) { return value; });
  }

  /// A metric from the samples of the passes: value(i) of counted run i.
  template <class F>
  requires std::is_invocable_r_v<double, F, std::size_t>
  void put(const std::string& name, F&& value) {
    Metric m;
    for (std::size_t i = 0; i < samples_; ++i) m.samples.push_back(value(i));
    for (const double sample : m.samples)
      if (!std::isfinite(sample))
        throw Error(name + " is not finite: a number of the machine or the workload is beyond all reason");
    m.value = median(m.samples);
    m.low = *std::min_element(m.samples.begin(), m.samples.end());
    m.high = *std::max_element(m.samples.begin(), m.samples.end());
    m.interval = executor_.measures() ? formatted("smallest and largest of {} runs", samples_)
                                      : std::string("none: a price has no samples");
    result_.metrics[name] = std::move(m);
  }

  double batch() const { return static_cast<double>(config_.workload.batch); }
  static void add(std::vector<double>& sum, double factor, const std::vector<double>& more) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += factor * more[i];
  }

  /// What only the executor knows of the run.
  void of_executor() {
    for (const auto& [name, value] : executor_.metrics()) put(name, value);
    for (const std::string& note : executor_.notes()) result_.notes.push_back(note);
    result_.devices = executor_.devices();
  }

  const RunConfig& config_;
  Executor& executor_;
  const Progress& progress_;
  std::size_t samples_;  // of every metric
  RunResult result_;
  std::map<std::string, double> time_by_source_;
  std::vector<double> ttft_, step_, cycle_;  // seconds, by sample
  double cycles_ = 0;
};

}  // namespace

RunResult run_benchmark(const RunConfig& config, Executor& executor, const Progress& progress) {
  Generator* generator = executor.generator();
  RunResult result =
      generator ? run_measured(config, executor, *generator, progress) : Benchmark(config, executor, progress).run();
  const std::vector<std::string> notes = config_notes(config);
  result.notes.insert(result.notes.begin(), notes.begin(), notes.end());
  return result;
}

}  // namespace specstep
