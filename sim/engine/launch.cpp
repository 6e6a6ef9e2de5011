#include "sim/engine/launch.h"

#include <algorithm>

#include "model/base/formatted.h"
#include "model/base/units.h"
#include "model/build_plan.h"
#include "sim/plan_options.h"

namespace specstep {

namespace {

bool of_draft(PassKind kind) { return kind == PassKind::draft || kind == PassKind::extend; }

PhaseChoice launch_of(const RunConfig& config, PassKind kind) {
  const EngineSpec& e = config.engine;
  if (const std::optional<Launch>& said = e.phases.of(kind)) return {*said, "engine.phases." + name_of(kind)};
  return engine_launch({e.preset, e.version, e.attention_backend, graph_mode(e.graph, e.preset), kind});
}

bool is_attention(const Op& op) {
  return std::holds_alternative<Attention>(op) || std::holds_alternative<SparseIndex>(op) ||
         std::holds_alternative<LinearAttention>(op);
}

Plan plan_at(const RunConfig& config, PassKind kind, std::int64_t sequences) {
  const PassShape shape{kind, std::max<std::int64_t>(sequences, 1), tokens_each(config, kind), 1};
  const PlanOptions options{config.comm.embedding_allreduce, config.comm.logits_gather, {}};
  return of_draft(kind) ? build_draft_plan(*config.draft, config.parallel, shape, options)
                        : build_plan(config.stack, config.parallel, shape, options);
}

}  // namespace

CaptureList captured_sizes(const RunConfig& config, bool speculative) {
  CaptureQuery q;
  q.preset = config.engine.preset;
  q.version = config.engine.version;
  q.speculative = speculative;
  q.verify_tokens = speculative ? config.speculation.verify_tokens() : 1;
  q.whole_verify = launch_of(config, PassKind::verify).launch == Launch::captured;
  q.gpu_gib = config.machine.gpu.memory_gib.value;
  q.ranks = config.parallel.tensor;
  q.max_sequences = config.engine.max_sequences;
  return capture_list(config.engine.graph, q);
}

std::int64_t tokens_each(const RunConfig& config, PassKind kind) {
  switch (kind) {
    case PassKind::prefill:
      return config.workload.prompt_tokens;
    case PassKind::decode:
      return 1;
    case PassKind::draft:
      return config.speculation.draft_width();
    case PassKind::verify:
    case PassKind::extend:
      return config.speculation.verify_tokens();
  }
  return 1;
}

LaunchChoice choose_launch(const RunConfig& config, PassKind kind, std::int64_t batch) {
  const PhaseChoice choice = launch_of(config, kind);
  if (choice.launch == Launch::eager) return {Launch::eager, batch, false, choice.why};
  const bool plain = kind == PassKind::decode || kind == PassKind::prefill;
  const CaptureList list = captured_sizes(config, config.speculative() && !plain);
  // Attention groups each run their own sequences, and the largest decides for all.
  const std::int64_t groups = config.parallel.attention_data;
  const std::int64_t each = (batch + groups - 1) / groups;
  const std::int64_t unit = list.in_tokens ? tokens_each(config, kind) : 1;
  const std::optional<std::int64_t> size = list.fit(each * unit);
  if (!size)
    return {Launch::eager, batch, true,
            formatted("{} {} a rank, the largest captured size is {} ({})", each * unit,
                      list.in_tokens ? "tokens" : "sequences", list.largest(), list.rule)};
  const std::int64_t padded = std::max((*size + unit / 2) / unit, each);
  return {choice.launch, groups > 1 ? padded * groups : padded, false, choice.why};
}

CaptureEstimate capture_estimate(const RunConfig& config) {
  CaptureEstimate out;
  const CaptureList list = captured_sizes(config, config.speculative());
  if (list.sizes.empty()) return out;
  const CaptureCost& cost = capture_cost(config.engine.graph, config.engine.preset);
  const auto kernels = [&](PassKind kind) {
    return plan_at(config, kind, list.in_tokens ? list.largest() / tokens_each(config, kind) : list.largest())
        .total()
        .nodes;
  };
  const PassKind main = config.speculative() ? PassKind::verify : PassKind::decode;
  const double target = kernels(main);
  const auto count = static_cast<double>(list.sizes.size());
  double weight = 0;  // graphs, in those of the target
  const auto add = [&](PassKind kind, double passes) {
    if (passes <= 0 || launch_of(config, kind).launch == Launch::eager) return;
    out.graphs += count;
    weight += count * passes * kernels(kind) / target;
  };
  add(main, 1);
  const bool vllm = config.engine.preset == EnginePreset::vllm;
  const bool pieces_too = launch_of(config, PassKind::prefill).launch == Launch::piecewise;
  if (vllm && pieces_too && launch_of(config, main).launch == Launch::captured) add(PassKind::prefill, 1);
  if (config.drafts_with_model()) {
    // vLLM's drafter replays one graph for every step; SGLang and TensorRT-LLM capture all steps in one.
    if (!vllm) add(PassKind::draft, static_cast<double>(config.speculation.depth() - 1));
    add(PassKind::extend, 1);
  }
  if (out.graphs == 0) return out;
  out.bytes = cost.first_gib.value * gib + weight * cost.per_graph_mib.value * mib;
  out.seconds = cost.start_s.value + weight * cost.per_graph_s.value;
  out.how =
      formatted("{:.0f} graphs, {} sizes of {:.0f} kind{} of pass, as {:.1f} of the target: {} GiB and {} MiB each",
                out.graphs, list.sizes.size(), out.graphs / count, out.graphs > count ? "s" : "", weight,
                cost.first_gib.value, cost.per_graph_mib.value);
  return out;
}

std::int64_t pieces_of(const Plan& plan) {
  std::int64_t pieces = 0;
  bool inside = false;
  for (const Step& step : plan.steps) {
    const bool piece = !is_attention(step.op);
    if (piece && !inside) ++pieces;
    inside = piece;
  }
  return pieces;
}

double host_launch_seconds(const Plan& plan, Launch launch, const GpuSpec& gpu, const GraphSpec& graph) {
  if (launch == Launch::captured) return 0;
  double eager = 0;
  for (const Step& step : plan.steps)
    if (launch == Launch::eager || is_attention(step.op)) eager += cost_of(step.op).nodes;
  double seconds = eager * gpu.eager_launch_us.value * us;
  if (launch == Launch::piecewise) seconds += static_cast<double>(pieces_of(plan)) * graph.piece_launch_us.value * us;
  return seconds;
}

}  // namespace specstep
