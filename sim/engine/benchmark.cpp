// The benchmark reads as the request does: prefill, decode, and with speculation the cycle.
#include "sim/engine/benchmark.h"

#include <algorithm>
#include <cmath>

#include "model/base/formatted.h"
#include "model/base/units.h"
#include "model/build_plan.h"
#include "sim/engine/config_notes.h"
#include "sim/engine/phase.h"

namespace specstep {

namespace {

/// Contexts at which passes are carried out along a generation. Time is piecewise linear in the context (caches grow,
/// windows saturate), so the mean over a few evenly spaced points is the mean over all steps but for the kinks.
constexpr std::int64_t context_points = 5;

class Benchmark {
 public:
  Benchmark(const RunConfig& config, Executor& executor) : config_(config), executor_(executor) {
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
    return std::move(result_);
  }

 private:
  PlanOptions options() const { return {config_.comm.embedding_allreduce, config_.comm.logits_gather}; }
  std::int64_t verify_tokens() const { return config_.speculation.verify_tokens(); }

  /// Carries out one pass and notes where its time went, weighted into the provenance.
  PhaseResult pass(PassKind kind, std::int64_t tokens_each, std::int64_t context, double weight, bool draft_model) {
    const LaunchChoice choice = choose_launch(config_.engine, kind, config_.workload.batch, config_.speculative());
    const PassShape shape{kind, choice.padded_batch, tokens_each, context};
    Plan plan = draft_model ? build_draft_plan(*config_.draft, config_.parallel, shape, options())
                            : build_plan(config_.stack, config_.parallel, shape, options());
    const std::unique_ptr<PreparedPlan> prepared = executor_.prepare(std::move(plan), choice.launch);
    const Timeline timeline = prepared->run(true);
    for (const std::string& note : prepared->notes())
      if (std::find(result_.notes.begin(), result_.notes.end(), note) == result_.notes.end())
        result_.notes.push_back(note);
    for (const StepTime& span : timeline.spans) {
      time_by_source_[name_of(span.provenance)] += weight * span.seconds;
      if (span.extrapolated) time_by_source_["extrapolated"] += weight * span.seconds;
    }
    return phase_of(*prepared, timeline, config_.workload.batch);
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
        mean.seconds = mean.allreduce_seconds = 0;
        mean.parts = {};
        mean.cost = {};
      }
      add_weighted(mean, one, share);
    }
    return mean;
  }

  static void add_weighted(PhaseResult& mean, const PhaseResult& one, double share) {
    mean.seconds += share * one.seconds;
    mean.allreduce_seconds += share * one.allreduce_seconds;
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
    ttft_ = target.seconds;
    if (config_.drafts_with_model())
      ttft_ += pass(PassKind::prefill, config_.workload.prompt_tokens, 0, 1, true).seconds;
    put("prefill.pass_ms", target.seconds / ms);
    put("ttft_ms", ttft_ / ms);
    result_.phases.push_back(target);
  }

  void decode() {
    const double steps = config_.speculative() ? 0 : static_cast<double>(config_.workload.output_tokens - 1);
    PhaseResult step = growing_pass(PassKind::decode, 1, steps, false);
    step.passes_per_cycle = config_.speculative() ? 0 : 1;
    step_ = step.seconds;
    put("decode.step_ms", step_ / ms);
    put("decode.tok_s", static_cast<double>(config_.workload.batch) / step_);
    put("decode.tok_s_per_user", 1 / step_);
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
    cycle_ = verify.seconds;
    if (config_.drafts_with_model()) draft_passes();
    put("verify.pass_ms", verify.seconds / ms);
    put_allreduce(verify);
    put("speculative.cycle_ms", cycle_ / ms);
    put("speculative.accept_length", length);
    put("speculative.tok_s", static_cast<double>(config_.workload.batch) * length / cycle_);
    put("speculative.tok_s_per_user", length / cycle_);
    put("speculative.speedup", length / cycle_ * step_);
    put("speculative.break_even_accept_length", cycle_ / step_);
    result_.phases.push_back(verify);
  }

  void draft_passes() {
    const auto steps = static_cast<double>(config_.speculation.depth() - 1);
    PhaseResult draft = growing_pass(PassKind::draft, config_.speculation.draft_width(), cycles_ * steps, true);
    draft.passes_per_cycle = steps;
    PhaseResult extend = growing_pass(PassKind::extend, verify_tokens(), cycles_, true);
    extend.passes_per_cycle = 1;
    cycle_ += steps * draft.seconds + extend.seconds;
    put("draft.pass_ms", draft.seconds / ms);
    result_.phases.push_back(draft);
    result_.phases.push_back(extend);
  }

  void whole_request() {
    const auto rest = static_cast<double>(config_.workload.output_tokens - 1);
    const double decode_time = config_.speculative() ? cycles_ * cycle_ : rest * step_;
    const double rate = static_cast<double>(config_.workload.output_tokens) / (ttft_ + decode_time);
    put("benchmark.tok_s", rate * static_cast<double>(config_.workload.batch));
    put("benchmark.tok_s_per_user", rate);
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
  }

  void put(const std::string& name, double value) {
    if (!std::isfinite(value))
      throw Error(name + " is not finite: a number of the machine or the workload is beyond all reason");
    result_.metrics[name] = {value, {value}, value, value, "none: a price has no samples"};
  }

  const RunConfig& config_;
  Executor& executor_;
  RunResult result_;
  std::map<std::string, double> time_by_source_;
  double ttft_ = 0, step_ = 0, cycle_ = 0, cycles_ = 0;
};

}  // namespace

RunResult run_benchmark(const RunConfig& config, Executor& executor, const Progress& progress) {
  Generator* generator = executor.generator();
  RunResult result =
      generator ? run_measured(config, executor, *generator, progress) : Benchmark(config, executor).run();
  const std::vector<std::string> notes = config_notes(config);
  result.notes.insert(result.notes.begin(), notes.begin(), notes.end());
  return result;
}

}  // namespace specstep
