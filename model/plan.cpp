// Names, totals and checks of plans.
#include "model/plan.h"

#include <stdexcept>

#include "model/base/formatted.h"

namespace specstep {

std::string_view name_of(StepKind kind) {
  static constexpr std::string_view names[] = {"embed",
                                               "embed_allreduce",
                                               "fuse_features",
                                               "embed_norm",
                                               "hidden_norm",
                                               "combine_features",
                                               "attention_norm",
                                               "qkv",
                                               "qk_norm",
                                               "qkv_a",
                                               "q_a_norm",
                                               "kv_a_norm",
                                               "q_b",
                                               "absorb_q",
                                               "absorb_v",
                                               "index_q",
                                               "index_k",
                                               "index",
                                               "linear_in",
                                               "linear_gates",
                                               "linear_attention",
                                               "rope",
                                               "query_gather",
                                               "context_gather",
                                               "attention",
                                               "sums_gather",
                                               "join_parts",
                                               "parts_scatter",
                                               "o_proj",
                                               "attention_allreduce",
                                               "mlp_norm",
                                               "mlp_gather",
                                               "gate_up",
                                               "activation",
                                               "down",
                                               "mlp_scatter",
                                               "router",
                                               "route",
                                               "dispatch",
                                               "expert_gate_up",
                                               "expert_activation",
                                               "expert_down",
                                               "combine_experts",
                                               "return_tokens",
                                               "shared_gate_up",
                                               "shared_activation",
                                               "shared_down",
                                               "mlp_allreduce",
                                               "final_norm",
                                               "head_gather",
                                               "lm_head",
                                               "logits_gather",
                                               "sample"};
  static_assert(std::size(names) == static_cast<std::size_t>(StepKind::sample) + 1);
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name_of(BufferKind kind) {
  static constexpr std::string_view names[] = {"tokens",
                                               "residual",
                                               "normed",
                                               "features",
                                               "pair",
                                               "qkv",
                                               "latent",
                                               "query",
                                               "query_latent",
                                               "group_query",
                                               "cached_rows",
                                               "sums",
                                               "group_sums",
                                               "index_query",
                                               "index_key",
                                               "selected",
                                               "attended",
                                               "projected",
                                               "gate_up",
                                               "activated",
                                               "scores",
                                               "routes",
                                               "expert_gate_up",
                                               "expert_activated",
                                               "expert_out",
                                               "shared_gate_up",
                                               "shared_activated",
                                               "shared_out",
                                               "exchanged",
                                               "logits_part",
                                               "logits",
                                               "ids"};
  static_assert(std::size(names) == static_cast<std::size_t>(BufferKind::ids) + 1);
  return names[static_cast<std::size_t>(kind)];
}

std::string Step::label() const {
  return layer == no_index ? std::string(name_of(kind)) : formatted("layer {} {}", layer, name_of(kind));
}

Cost Plan::total() const {
  Cost sum;
  for (const Step& step : steps) sum += cost_of(step.op);
  return sum;
}

double Plan::weight_memory() const {
  double bytes = 0;
  for (const Weight& w : weights) bytes += w.bytes();
  return bytes;
}

namespace {

/// Payload of a collective, or nothing for other operations.
struct Payload {
  std::int64_t of(const AllReduce& a) const { return a.bytes(); }
  std::int64_t of(const AllReduceNorm& a) const { return a.sum.bytes(); }
  std::int64_t of(const AllGather& a) const { return a.bytes(); }
  std::int64_t of(const ReduceScatter& a) const { return a.bytes(); }
  std::int64_t of(const AllToAll& a) const { return a.bytes(); }
  template <class T>
  std::int64_t of(const T&) const {
    return -1;
  }
};

std::string collective_name(const Step& step) {
  if (std::holds_alternative<AllReduceNorm>(step.op)) return "allreduce in layers, fused with rmsnorm";
  if (const auto* reduce = std::get_if<AllReduce>(&step.op))
    return reduce->in_layer ? "allreduce in layers" : "allreduce of the embedding";
  switch (step.kind) {
    case StepKind::logits_gather:
      return "all-gather of the logits";
    case StepKind::head_gather:
      return "all-gather of hidden states before the head";
    case StepKind::mlp_gather:
      return "all-gather of tokens before the mlp";
    case StepKind::mlp_scatter:
      return "reduce-scatter after the mlp";
    case StepKind::query_gather:
      return "all-gather of queries, context group";
    case StepKind::context_gather:
      return "all-gather of the cache, context group";
    case StepKind::sums_gather:
      return "all-gather of softmax sums, context group";
    case StepKind::parts_scatter:
      return "reduce-scatter of attention, context group";
    case StepKind::dispatch:
      return "all-to-all of tokens to experts";
    default:
      return "all-to-all of tokens back";
  }
}

}  // namespace

std::vector<CollectiveCount> count_collectives(const Plan& plan) {
  std::vector<CollectiveCount> out;
  for (const Step& step : plan.steps) {
    const std::int64_t bytes = std::visit([](const auto& op) { return Payload{}.of(op); }, step.op);
    if (bytes < 0) continue;
    const std::string what = collective_name(step);
    bool found = false;
    for (CollectiveCount& row : out)
      if (row.what == what && row.bytes == bytes) {
        ++row.count;
        found = true;
        break;
      }
    if (!found) out.push_back({what, step.kind, 1, bytes});
  }
  return out;
}

void check_well_formed(const Plan& plan) {
  const auto inside = [](std::int32_t index, std::size_t size) {
    return index == no_index || (index >= 0 && static_cast<std::size_t>(index) < size);
  };
  for (const Step& step : plan.steps) {
    bool good =
        inside(step.weight, plan.weights.size()) && inside(step.out, plan.buffers.size()) && step.out != no_index;
    for (const std::int32_t in : step.in) good = good && inside(in, plan.buffers.size());
    if (!good) throw std::logic_error("step '" + step.label() + "' points outside the plan's tables");
    const auto* gemm = std::get_if<Gemm>(&step.op);
    if (!gemm) continue;
    const Weight& w = plan.weights.at(static_cast<std::size_t>(step.weight));
    if (w.rows != gemm->n || w.cols != gemm->k || w.count != gemm->batches)
      throw std::logic_error("step '" + step.label() + "' and its weight differ in shape");
  }
  for (const Buffer& b : plan.buffers)
    if (b.rows <= 0 || b.cols <= 0) throw std::logic_error(formatted("buffer {} is empty", name_of(b.kind)));
}

}  // namespace specstep
