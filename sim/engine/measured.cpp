#include "sim/engine/measured.h"

#include <algorithm>

#include "model/base/formatted.h"
#include "model/base/units.h"
#include "model/build_plan.h"
#include "sim/engine/generated_text.h"
#include "sim/engine/pass_notes.h"
#include "sim/engine/passes.h"
#include "sim/engine/phase.h"
#include "sim/plan_options.h"

namespace specstep {

namespace {

class Measured {
 public:
  Measured(const RunConfig& config, Executor& executor, Generator& generator, const Progress& progress)
      : config_(config), executor_(executor), generator_(generator), progress_(progress) {
    result_.executor = executor.name();
    result_.config = config;
  }

  RunResult run() {
    plain_ = repeat(false);
    if (config_.speculative()) drafted_ = repeat(true);
    result_.generation = texts();
    request();
    decode();
    if (config_.speculative()) cycle();
    result_.metrics["memory.weights_gib"] = {
        weights() / gib, {weights() / gib}, weights() / gib, weights() / gib, "none: counted, not measured"};
    for (const auto& [name, value] : executor_.metrics())
      result_.metrics[name] = {value, {value}, value, value, "none: taken once"};
    add_notes(executor_.notes());
    result_.devices = executor_.devices();
    result_.provenance = {{"measured", 1.0}, {"fit", 0.0}, {"datasheet", 0.0}};
    return std::move(result_);
  }

 private:
  const std::vector<Generation>& main() const { return config_.speculative() ? drafted_ : plain_; }
  double batch() const { return static_cast<double>(config_.workload.batch); }
  double outputs() const { return static_cast<double>(config_.workload.output_tokens); }

  std::vector<Generation> repeat(bool speculative) {
    const MeasureSpec& m = config_.measure;
    std::vector<Generation> counted;
    for (std::int64_t i = 0; i < m.warmup + m.runs; ++i) {
      if (progress_)
        progress_(formatted("{} {} {} of {}", speculative ? "speculative" : "plain", i < m.warmup ? "warm-up" : "run",
                            i < m.warmup ? i + 1 : i - m.warmup + 1, i < m.warmup ? m.warmup : m.runs));
      Generation one = generator_.generate(speculative);
      if (i >= m.warmup) counted.push_back(std::move(one));
    }
    return counted;
  }

  /// All repetitions give the same text: coins start anew.
  GeneratedText texts() const {
    return {digest_of(main().front().tokens), digest_of(plain_.front().tokens),
            first_difference(main().front().tokens, plain_.front().tokens)};
  }

  template <class F>
  void put(const std::string& name, const std::vector<Generation>& runs, F&& value) {
    Metric m;
    for (const Generation& g : runs) m.samples.push_back(value(g));
    m.value = median(m.samples);
    m.low = *std::min_element(m.samples.begin(), m.samples.end());
    m.high = *std::max_element(m.samples.begin(), m.samples.end());
    m.interval = formatted("smallest and largest of {} runs", runs.size());
    result_.metrics[name] = std::move(m);
  }

  static double pass_seconds(const Generation& g, PassKind kind) {
    const Generation::Passes& p = g.of(kind);
    return p.count > 0 ? p.seconds / static_cast<double>(p.count) : 0;
  }
  static double per(const Generation& g, PassKind kind) { return g.rest / static_cast<double>(g.of(kind).count); }

  void request() {
    put("ttft_ms", main(), [](const Generation& g) { return g.first_token / ms; });
    put("prefill.pass_ms", main(), [](const Generation& g) { return pass_seconds(g, PassKind::prefill) / ms; });
    put("benchmark.tok_s", main(), [&](const Generation& g) { return batch() * outputs() / (g.first_token + g.rest); });
    put("benchmark.tok_s_per_user", main(), [&](const Generation& g) { return outputs() / (g.first_token + g.rest); });
    phase(PassKind::prefill, config_.workload.prompt_tokens, 0, main());
  }

  void decode() {
    const auto step = [](const Generation& g) { return per(g, PassKind::decode); };
    put("decode.step_ms", plain_, [&](const Generation& g) { return step(g) / ms; });
    put("decode.tok_s", plain_, [&](const Generation& g) { return batch() / step(g); });
    put("decode.tok_s_per_user", plain_, [&](const Generation& g) { return 1 / step(g); });
    phase(PassKind::decode, 1, config_.speculative() ? 0 : 1, plain_);
  }

  void cycle() {
    const double step = result_.metrics.at("decode.step_ms").value * ms;
    const auto length = [](const Generation& g) { return g.acceptance.accept_length(); };
    const auto seconds = [](const Generation& g) { return per(g, PassKind::verify); };
    put("speculative.cycle_ms", drafted_, [&](const Generation& g) { return seconds(g) / ms; });
    put("speculative.accept_length", drafted_, length);
    put("speculative.acceptance_rate", drafted_,
        [](const Generation& g) { return 100 * g.acceptance.acceptance_rate(); });
    put("speculative.accepted_share", drafted_,
        [&](const Generation& g) { return length(g) / static_cast<double>(config_.speculation.verify_tokens()); });
    put("speculative.tok_s", drafted_, [&](const Generation& g) { return batch() * length(g) / seconds(g); });
    put("speculative.tok_s_per_user", drafted_, [&](const Generation& g) { return length(g) / seconds(g); });
    put("speculative.speedup", drafted_, [&](const Generation& g) { return length(g) / seconds(g) * step; });
    put("speculative.break_even_accept_length", drafted_, [&](const Generation& g) { return seconds(g) / step; });
    put("verify.pass_ms", drafted_, [](const Generation& g) { return pass_seconds(g, PassKind::verify) / ms; });
    phase(PassKind::verify, config_.speculation.verify_tokens(), 1, drafted_);
    if (drafted_.front().of(PassKind::draft).count > 0) {
      put("draft.pass_ms", drafted_, [](const Generation& g) { return pass_seconds(g, PassKind::draft) / ms; });
      phase(PassKind::draft, config_.speculation.draft_width(), static_cast<double>(config_.speculation.depth() - 1),
            drafted_);
    }
    if (drafted_.front().of(PassKind::extend).count > 0)
      phase(PassKind::extend, config_.speculation.verify_tokens(), 1, drafted_);
    acceptance_notes();
  }

  /// Each note once, however many passes give it.
  void add_notes(const std::vector<std::string>& notes) {
    for (const std::string& note : notes)
      if (std::find(result_.notes.begin(), result_.notes.end(), note) == result_.notes.end())
        result_.notes.push_back(note);
  }

  void acceptance_notes() {
    result_.acceptance = Acceptance(drafted_.front().acceptance.survival());
    std::string rates;
    for (const double s : drafted_.front().acceptance.survival()) rates += formatted(" {:.3f}", s);
    result_.notes.push_back("acceptance is counted; accepted by position:" + rates);
    const SpeculationSpec& s = config_.speculation;
    if (s.acceptance)
      result_.notes.push_back(formatted("speculation.acceptance, a length of {:.3f}, is not used: {:.3f} was counted",
                                        accept_length(*s.acceptance, s.depth()),
                                        result_.metrics.at("speculative.accept_length").value));
  }

  /// A pass with its breakdown: halfway through the output, traced, scaled to the median untraced pass.
  void phase(PassKind kind, std::int64_t tokens_each, double per_cycle, const std::vector<Generation>& runs) {
    const bool draft = kind == PassKind::draft || kind == PassKind::extend;
    const std::int64_t context =
        kind == PassKind::prefill ? 0 : config_.workload.prompt_tokens + config_.workload.output_tokens / 2;
    const PassShape shape{kind, config_.workload.batch, tokens_each, context};
    const PlanOptions options = plan_options(config_);
    const auto prepared = executor_.prepare(draft ? build_draft_plan(*config_.draft, config_.parallel, shape, options)
                                                  : build_plan(config_.stack, config_.parallel, shape, options),
                                            Launch::eager);
    add_notes(prepared->notes());
    if (progress_) progress_(formatted("tracing {}", name_of(kind)));
    PhaseResult out;
    Timeline sum;
    Timeline last;
    for (std::int64_t i = 0; i < config_.measure.runs; ++i) {
      Timeline one = prepared->run(true);
      sum.seconds += one.seconds;
      for (std::size_t p = 0; p < part_count; ++p) sum.parts[p] += one.parts[p];
      sum.spans.resize(one.spans.size());
      for (std::size_t s = 0; s < one.spans.size(); ++s) {
        sum.spans[s].seconds += one.spans[s].seconds;
        sum.spans[s].gap += one.spans[s].gap;
        sum.spans[s].provenance = one.spans[s].provenance;
      }
      last = std::move(one);
    }
    std::vector<double> passes;
    passes.reserve(runs.size());
    for (const Generation& g : runs) passes.push_back(pass_seconds(g, kind));
    const double usual = median(std::move(passes));  // as the metrics are: a pass is no longer than its step
    const double scale = sum.seconds > 0 ? usual / sum.seconds : 0;
    sum.seconds = usual;
    for (double& part : sum.parts) part *= scale;
    for (StepTime& span : sum.spans) {
      span.seconds *= scale;
      span.gap *= scale;
    }
    sum.in_situ_seconds = last.in_situ_seconds;
    sum.wait_seconds = last.wait_seconds;
    sum.allreduce_seconds = last.allreduce_seconds;
    sum.experts_met = last.experts_met;
    out = phase_of(*prepared, sum, config_.workload.batch);
    if (last.device) {
      PassNotes traced;
      traced.add(pass_name(draft, kind), out, *last.device);
      add_notes(traced.lines());
    }
    if (kind == (config_.speculative() ? PassKind::verify : PassKind::decode)) allreduce(last);
    out.passes_per_cycle = per_cycle;
    result_.phases.push_back(out);
  }

  /// Of an executor whose traces time collectives alone; the host's threads say nothing about a fabric.
  void allreduce(const Timeline& traced) {
    const auto once = [&](const char* name, double seconds) {
      if (seconds > 0)
        result_.metrics[name] = {seconds / us, {seconds / us}, seconds / us, seconds / us, "none: one trace"};
    };
    once("allreduce.isolated_us", traced.allreduce_seconds);
    once("allreduce.in_situ_us", traced.in_situ_seconds);
    once("allreduce.wait_us", traced.wait_seconds);
  }

  double weights() const {
    double bytes = weight_memory(config_.stack, config_.parallel);
    if (config_.drafts_with_model()) bytes += weight_memory(*config_.draft, config_.parallel);
    return bytes;
  }

  const RunConfig& config_;
  Executor& executor_;
  Generator& generator_;
  const Progress& progress_;
  RunResult result_;
  std::vector<Generation> plain_, drafted_;
};

}  // namespace

RunResult run_measured(const RunConfig& config, Executor& executor, Generator& generator, const Progress& progress) {
  return Measured(config, executor, generator, progress).run();
}

}  // namespace specstep
