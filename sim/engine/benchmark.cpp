// The benchmark reads as the request does: prefill, decode, and with speculation the cycle.
#include "sim/engine/benchmark.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "model/base/formatted.h"
#include "model/base/units.h"
#include "model/build_plan.h"
#include "sim/engine/break_even.h"
#include "sim/engine/config_notes.h"
#include "sim/engine/pass_series.h"
#include "sim/engine/serving.h"

namespace specstep {

namespace {

class Benchmark {
 public:
  Benchmark(const RunConfig& config, PassSource& passes, bool measures)
      : config_(config),
        passes_(config, passes, measures),
        measures_(measures),
        samples_(measures ? static_cast<std::size_t>(config.measure.runs) : 1) {
    result_.config = config;
  }

  RunResult run(const Executor& executor) {
    check_memory();
    prefill();
    steps();
    whole_request();
    result_.notes = passes_.notes();
    add_serving(result_);
    result_.provenance = passes_.provenance();
    of_executor(executor);
    return std::move(result_);
  }

  RunResult steps_alone() {
    steps();
    return std::move(result_);
  }

 private:
  void steps() {
    decode();
    if (config_.speculative()) cycle();
  }

  std::int64_t verify_tokens() const { return config_.speculation.verify_tokens(); }

  void prefill() {
    const std::int64_t tokens = config_.workload.prompt_tokens;
    const PhaseResult target = passes_.once({.kind = PassKind::prefill, .tokens_each = tokens}, 0);
    ttft_ = target.samples;
    if (config_.drafts_with_model())
      add(ttft_, 1, passes_.once({.kind = PassKind::prefill, .tokens_each = tokens, .draft_model = true}, 0).samples);
    put("prefill.pass_ms", [&](std::size_t i) { return target.samples[i] / ms; });
    put("ttft_ms", [&](std::size_t i) { return ttft_[i] / ms; });
    result_.phases.push_back(target);
  }

  void decode() {
    const double steps = config_.speculative() ? 0 : static_cast<double>(config_.workload.output_tokens - 1);
    PhaseResult step = passes_.growing({.kind = PassKind::decode, .times = steps});
    step.passes_per_cycle = config_.speculative() ? 0 : 1;
    const EngineHostSpec host = config_.engine.host();
    if (!measures_)
      add_host(step, std::max(0.0, seconds_of(host.overlapped_step_us) + launch_seconds(step) - step.seconds));
    step_ = step.samples;
    put("decode.step_ms", [&](std::size_t i) { return step_[i] / ms; });
    put("decode.tok_s", [&](std::size_t i) { return batch() / step_[i]; });
    put("decode.tok_s_per_user", [&](std::size_t i) { return 1 / step_[i]; });
    if (!config_.speculative()) put_allreduce(step);
    result_.phases.push_back(step);
  }

  /// Time that the host spends on launching a pass, beside the device.
  double launch_seconds(const PhaseResult& phase) const {
    const EngineHostSpec host = config_.engine.host();
    if (!host.given()) return 0;
    return phase.launch == Launch::captured ? phase.cost.nodes * seconds_of(host.graph_node_us) : phase.host_seconds;
  }

  void cycle() {
    if (!config_.speculation.acceptance)
      throw InputError({{}, "speculation.acceptance", "missing", "how many drafts are accepted: they are only priced"});
    const SpeculationSpec& s = config_.speculation;
    std::optional<DraftTree> tree;
    if (s.tree) tree = DraftTree{s.tree->steps, s.tree->topk, s.tree->verify_tokens};
    result_.acceptance = acceptance_of(*s.acceptance, s.depth(), tree);
    length_ = result_.acceptance->length();
    cycles_ = static_cast<double>(config_.workload.output_tokens - 1) / length_;
    std::vector<PhaseResult> phases{
        passes_.growing({.kind = PassKind::verify, .tokens_each = verify_tokens(), .times = cycles_})};
    phases.front().passes_per_cycle = 1;
    if (config_.drafts_with_model()) draft_passes_of(phases);
    wait_for_host(phases);
    cycle_.assign(samples_, 0);
    for (const PhaseResult& p : phases) add(cycle_, p.passes_per_cycle, p.samples);
    put_cycle(phases);
    std::rotate(phases.begin(), phases.begin() + 1, phases.end());  // verify last, behind the drafts it checks
    for (PhaseResult& p : phases) result_.phases.push_back(std::move(p));
    result_.cycle_terms = cycle_terms(result_.phases);
  }

  void draft_passes_of(std::vector<PhaseResult>& phases) {
    const SpeculationSpec& s = config_.speculation;
    const DraftPasses drafts =
        draft_passes(cycle_rules(config_.engine, s.tree.has_value()), {s.depth(), s.draft_width(), s.verify_tokens()});
    const auto request = [&](PassKind kind, std::int64_t tokens, std::int64_t count, std::int64_t launches) {
      const double share = static_cast<double>(launches) / static_cast<double>(count);
      return PassUse{kind,
                     tokens,
                     true,
                     drafts.one_graph ? PassKind::verify : kind,
                     drafts.one_graph ? 0 : share,
                     cycles_ * static_cast<double>(count)};
    };
    if (drafts.steps > 0) {
      phases.push_back(passes_.growing(request(PassKind::draft, s.draft_width(), drafts.steps, drafts.step_launches)));
      phases.back().passes_per_cycle = static_cast<double>(drafts.steps);
    }
    const auto extend = [&](std::int64_t tokens) {
      return passes_.growing(request(PassKind::extend, tokens, drafts.extends, drafts.extends));
    };
    phases.push_back(extend(drafts.extend_tokens));
    if (drafts.eager_extend_accepted && phases.back().launch == Launch::eager) {
      // Time is linear in the tokens between whole numbers of them: a mean length costs the mean of its neighbours.
      const auto less = static_cast<std::int64_t>(length_);
      PhaseResult mean = extend(less);
      const double more = length_ - static_cast<double>(less);
      if (more > 0) {
        const PhaseResult low = std::move(mean), high = extend(less + 1);
        mean = emptied(more < 0.5 ? low : high);  // shapes are those of the nearest
        add_weighted(mean, low, 1 - more);
        add_weighted(mean, high, more);
      }
      mean.tokens = std::llround(batch() * length_);
      phases.back() = std::move(mean);
    }
    phases.back().passes_per_cycle = static_cast<double>(drafts.extends);
  }

  /// A cycle lasts at least as long as the host is busy with it; the rest of that time stands in front of its verify.
  void wait_for_host(std::vector<PhaseResult>& phases) const {
    if (measures_) return;
    double device = 0;
    double host = seconds_of(config_.engine.host().overlapped_cycle_us);
    for (const PhaseResult& p : phases) {
      device += p.passes_per_cycle * p.seconds;
      host += p.passes_per_cycle * launch_seconds(p);
    }
    add_host(phases.front(), std::max(0.0, host - device));
  }

  void put_cycle(const std::vector<PhaseResult>& phases) {
    const PhaseResult& verify = phases.front();
    put("verify.pass_ms", [&](std::size_t i) { return verify.samples[i] / ms; });
    if (phases.size() > 1 && phases[1].kind == PassKind::draft)
      put("draft.pass_ms", [&](std::size_t i) { return phases[1].samples[i] / ms; });
    put_allreduce(verify);
    put("speculative.cycle_ms", [&](std::size_t i) { return cycle_[i] / ms; });
    put("speculative.accept_length", length_);
    put("speculative.acceptance_rate", 100 * result_.acceptance->rate());
    put("speculative.tok_s", [&](std::size_t i) { return batch() * length_ / cycle_[i]; });
    put("speculative.tok_s_per_user", [&](std::size_t i) { return length_ / cycle_[i]; });
    put("speculative.tpot_ms", [&](std::size_t i) { return cycle_[i] / length_ / ms; });
    put("speculative.speedup", [&](std::size_t i) { return length_ / cycle_[i] * step_[i]; });
    put("speculative.break_even_accept_length", [&](std::size_t i) { return cycle_[i] / step_[i]; });
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

  /// Prices are those of an engine that has started; an executor that measures needs room for its own weights alone.
  void check_memory() {
    if (measures_) return require_weights_fit(config_);
    result_.memory = require_start(config_);
  }

  void put_allreduce(const PhaseResult& phase) {
    if (phase.allreduces_in_layer > 0) put("allreduce.isolated_us", phase.allreduce_seconds / us);
    if (phase.in_situ_seconds <= 0) return;
    put("allreduce.in_situ_us", phase.in_situ_seconds / us);
    if (phase.wait_seconds > 0) {
      put("allreduce.wait_us", phase.wait_seconds / us);
      put("allreduce.wait_share", phase.wait_seconds / phase.in_situ_seconds);
    }
    put("allreduce.rest_of_pass_ms",
        (phase.seconds - static_cast<double>(phase.allreduces) * phase.in_situ_seconds) / ms);
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
    m.interval = measures_ ? formatted("smallest and largest of {} runs", samples_)
                           : std::string("none: a price has no samples");
    result_.metrics[name] = std::move(m);
  }

  double batch() const { return static_cast<double>(config_.workload.batch); }
  static void add(std::vector<double>& sum, double factor, const std::vector<double>& more) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += factor * more[i];
  }

  /// What only the executor knows of the run.
  void of_executor(const Executor& executor) {
    result_.executor = executor.name();
    for (const auto& [name, value] : executor.metrics()) put(name, value);
    for (const std::string& note : executor.notes()) result_.notes.push_back(note);
    result_.devices = executor.devices();
  }

  const RunConfig& config_;
  PassSeries passes_;
  bool measures_;
  std::size_t samples_;  // of every metric
  RunResult result_;
  std::vector<double> ttft_, step_, cycle_;  // seconds, by sample
  double length_ = 1, cycles_ = 0;
};

}  // namespace

RunResult run_steps(const RunConfig& config, PassSource& passes) {
  return Benchmark(config, passes, false).steps_alone();
}

RunResult run_benchmark(const RunConfig& config, Executor& executor, const Progress& progress) {
  Generator* generator = executor.generator();
  ExecutorPasses passes(config, executor, progress);
  RunResult result = generator ? run_measured(config, executor, *generator, progress)
                               : Benchmark(config, passes, executor.measures()).run(executor);
  const std::vector<std::string> notes = config_notes(config);
  result.notes.insert(result.notes.begin(), notes.begin(), notes.end());
  return result;
}

}  // namespace specstep
