// Plans as text and JSON.

#include <nlohmann/json.hpp>

#include "model/base/formatted.h"
#include "model/base/units.h"
#include "model/plan.h"

namespace specstep {

namespace {

std::string format_text(const WeightFormat& w) {
  return w.group > 0 ? formatted("{} g{}", name_of(w.dtype), w.group) : name_of(w.dtype);
}

struct OpName {
  std::string_view of(const Gemm&) const { return "gemm"; }
  std::string_view of(const GroupedGemm&) const { return "grouped_gemm"; }
  std::string_view of(const Attention&) const { return "attention"; }
  std::string_view of(const AttentionJoin&) const { return "attention_join"; }
  std::string_view of(const SparseIndex&) const { return "sparse_index"; }
  std::string_view of(const LinearAttention&) const { return "linear_attention"; }
  std::string_view of(const AllReduce&) const { return "allreduce"; }
  std::string_view of(const AllGather&) const { return "allgather"; }
  std::string_view of(const ReduceScatter&) const { return "reduce_scatter"; }
  std::string_view of(const AllToAll&) const { return "alltoall"; }
  std::string_view of(const RmsNorm&) const { return "rmsnorm"; }
  std::string_view of(const AllReduceNorm&) const { return "allreduce_norm"; }
  std::string_view of(const Activation&) const { return "activation"; }
  std::string_view of(const Rope&) const { return "rope"; }
  std::string_view of(const Router&) const { return "router"; }
  std::string_view of(const Combine&) const { return "combine"; }
  std::string_view of(const Embed&) const { return "embed"; }
  std::string_view of(const Sample&) const { return "sample"; }
};

struct OpText {
  std::string of(const Gemm& g) const {
    const std::string one = formatted("[{}, {}] x [{}, {}]^T {}", g.m, g.k, g.n, g.k, format_text(g.format));
    return g.batches > 1 ? formatted("{} x {}", g.batches, one) : one;
  }
  std::string of(const GroupedGemm& g) const {
    return formatted("{} tokens x top-{}, {:.1f} of {} experts met, [{}, {}]^T {}", g.tokens, g.top_k, g.experts_met,
                     g.experts, g.n, g.k, format_text(g.format));
  }
  std::string of(const Attention& a) const {
    const std::string limit = a.limit > 0 ? formatted(" at most {}", a.limit) : "";
    const std::string part = a.context_ranks > 1 ? formatted(", 1/{} of them here", a.context_ranks) : "";
    return formatted("{} {} x {} queries, {} heads, {} cached{}{}, {} values a token {}{}{}", name_of(a.kind),
                     a.sequences, a.queries, a.heads, a.context, limit, part, a.cached_values, name_of(a.kv),
                     a.queries > 1 && a.queries_share_kv ? ", read shared" : "",
                     a.padding > 0 ? formatted(", nothing cached for {} of them", a.padding) : std::string());
  }
  std::string of(const AttentionJoin& j) const {
    return formatted("{} tokens, {} heads of {}, {} parts", j.tokens, j.heads, j.value_dim, j.ranks);
  }
  std::string of(const SparseIndex& s) const {
    return formatted("{} x {} queries, {} heads of {}, {} cached, keep {}", s.sequences, s.queries, s.heads, s.dim,
                     s.context, s.top_k);
  }
  std::string of(const LinearAttention& l) const {
    return formatted("{} x {} tokens, {} heads, state {}", l.sequences, l.tokens_each, l.value_heads,
                     bytes_text(static_cast<double>(l.state_bytes)));
  }
  std::string of(const AllReduce& a) const { return collective(a.bytes(), a.ranks); }
  std::string of(const AllGather& a) const { return collective(a.bytes(), a.ranks); }
  std::string of(const ReduceScatter& a) const { return collective(a.bytes(), a.ranks); }
  std::string of(const AllToAll& a) const { return collective(a.bytes(), a.ranks); }
  std::string of(const RmsNorm& r) const {
    return formatted("[{}, {}]{}", r.rows, r.width, r.residual ? " + residual" : "");
  }
  std::string of(const AllReduceNorm& a) const { return formatted("{}, then rmsnorm {}", of(a.sum), of(a.norm)); }
  std::string of(const Activation& a) const { return formatted("[{}, {}]", a.rows, a.width); }
  std::string of(const Rope& r) const {
    return formatted("{} tokens x {} values, appends {:.0f} B each", r.tokens, r.rotated_values, r.append_bytes);
  }
  std::string of(const Router& r) const { return formatted("{} tokens, top-{} of {}", r.tokens, r.top_k, r.experts); }
  std::string of(const Combine& c) const {
    return formatted("{} tokens, {} outputs{}", c.tokens, c.top_k, c.shared ? " + shared" : "");
  }
  std::string of(const Embed& e) const { return formatted("[{}, {}] {}", e.tokens, e.hidden, format_text(e.format)); }
  std::string of(const Sample& s) const {
    static constexpr std::string_view what[] = {"sample", "accept or reject", "draft candidates"};
    return formatted("{}: [{}, {}]", what[static_cast<std::size_t>(s.kind)], s.rows, s.vocab);
  }
  static std::string collective(std::int64_t bytes, std::int64_t ranks) {
    return formatted("{} B over {} ranks", grouped(bytes), ranks);
  }
};

/// Steps of one layer, or of the stretch between layers: [begin, end).
struct Stretch {
  std::size_t begin = 0, end = 0;
};

std::vector<Stretch> stretches(const Plan& plan) {
  std::vector<Stretch> out;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    if (out.empty() || plan.steps[out.back().begin].layer != plan.steps[i].layer) out.push_back({i, i});
    out.back().end = i + 1;
  }
  return out;
}

bool same(const Plan& plan, const Stretch& a, const Stretch& b) {
  if (a.end - a.begin != b.end - b.begin) return false;
  for (std::size_t i = 0; i < a.end - a.begin; ++i) {
    const Step& x = plan.steps[a.begin + i];
    const Step& y = plan.steps[b.begin + i];
    if (x.layer == no_index || y.layer == no_index || x.kind != y.kind || !(x.op == y.op)) return false;
  }
  return true;
}

struct Repeat {
  std::size_t period = 1, times = 1;
};

/// The shortest pattern of layers that repeats from stretch i on.
Repeat repeat_at(const Plan& plan, const std::vector<Stretch>& all, std::size_t i) {
  for (std::size_t period = 1; period <= 8; ++period) {
    std::size_t end = i + period;
    while (end < all.size() && same(plan, all[end - period], all[end])) ++end;
    const std::size_t times = (end - i) / period;
    if (times > 1) return {period, times};
  }
  return {1, 1};
}

void append_stretch(std::string& out, const Plan& plan, const Stretch& s) {
  for (std::size_t i = s.begin; i < s.end; ++i) {
    const Step& step = plan.steps[i];
    const Cost c = cost_of(step.op);
    out += formatted("  {:<20} {:<16} {:>10}  {}\n", name_of(step.kind), op_name(step.op),
                     bytes_text(c.bytes() > 0 ? c.bytes() : c.comm_bytes), op_text(step.op));
  }
}

std::string header_text(const Plan& plan) {
  const PassShape& s = plan.shape;
  const std::string padding = s.padding > 0 ? formatted(" ({} of them padding)", s.padding) : "";
  const std::string context = plan.layout.context > 1 ? formatted(", context parallel {}", plan.layout.context) : "";
  return formatted("{}: {} pass, {} sequence{}{} x {} token{}, {} in the cache, tensor parallel {}{}\n", plan.model,
                   name_of(s.kind), s.sequences, s.sequences == 1 ? "" : "s", padding, s.tokens_each,
                   s.tokens_each == 1 ? "" : "s", s.context, plan.layout.tensor, context);
}

std::string totals_text(const Plan& plan) {
  const Cost t = plan.total();
  std::string out = formatted(
      "\n{} steps, {:.0f} kernels. A GPU reads or writes {:.2f} GB: weights {:.2f}, cache {:.3f}, activations {:.3f}; "
      "{:.1f} GFLOP.\n",
      plan.steps.size(), t.nodes, t.bytes() / 1e9, t.weight_bytes / 1e9, t.kv_bytes / 1e9, t.activation_bytes / 1e9,
      t.flops / 1e9);
  out += "\ncollectives:\n";
  const auto rows = count_collectives(plan);
  if (rows.empty()) out += "  none (one rank)\n";
  for (const CollectiveCount& row : rows)
    out += formatted("  {:>5} {:<44} of {:>12} B\n", row.count, row.what, grouped(row.bytes));
  return out;
}

}  // namespace

std::string_view op_name(const Op& op) {
  return std::visit([](const auto& o) { return OpName{}.of(o); }, op);
}

std::string op_text(const Op& op) {
  return std::visit([](const auto& o) { return OpText{}.of(o); }, op);
}

std::string plan_text(const Plan& plan, bool every_layer) {
  std::string out = header_text(plan);
  const std::vector<Stretch> all = stretches(plan);
  for (std::size_t i = 0; i < all.size();) {
    const Repeat repeat = every_layer ? Repeat{1, 1} : repeat_at(plan, all, i);
    const std::size_t covered = repeat.period * repeat.times;
    const std::int32_t first = plan.steps[all[i].begin].layer;
    if (repeat.times > 1)
      out +=
          formatted("\nlayers {} to {}: {} times\n", first, plan.steps[all[i + covered - 1].begin].layer, repeat.times);
    for (std::size_t k = i; k < i + repeat.period; ++k) {
      const std::int32_t layer = plan.steps[all[k].begin].layer;
      if (layer == no_index)
        out += "\n";
      else if (repeat.times == 1)
        out += formatted("\nlayer {}\n", layer);
      else if (repeat.period > 1)
        out += formatted(" layers {}, {}, ...\n", layer, layer + static_cast<std::int32_t>(repeat.period));
      append_stretch(out, plan, all[k]);
    }
    i += covered;
  }
  return out + totals_text(plan);
}

std::string plan_csv(const Plan& plan) {
  std::string out = "layer,step,op,shape,flops,weight_bytes,kv_bytes,activation_bytes,comm_bytes\n";
  for (const Step& s : plan.steps) {
    const Cost c = cost_of(s.op);
    const std::string layer = s.layer == no_index ? "" : std::to_string(s.layer);
    out += formatted("{},{},{},\"{}\",{},{},{},{},{}\n", layer, name_of(s.kind), op_name(s.op), op_text(s.op), c.flops,
                     c.weight_bytes, c.kv_bytes, c.activation_bytes, c.comm_bytes);
  }
  return out;
}

nlohmann::ordered_json plan_json(const Plan& plan) {
  using Json = nlohmann::ordered_json;
  const Cost t = plan.total();
  Json out = {{"schema", "specstep.plan/1"},
              {"model", plan.model},
              {"pass", name_of(plan.shape.kind)},
              {"sequences", plan.shape.sequences},
              {"padding", plan.shape.padding},
              {"tokens_each", plan.shape.tokens_each},
              {"context", plan.shape.context},
              {"tensor", plan.layout.tensor},
              {"totals",
               {{"flops", t.flops},
                {"bytes", t.bytes()},
                {"weight_bytes", t.weight_bytes},
                {"kv_bytes", t.kv_bytes},
                {"activation_bytes", t.activation_bytes},
                {"nodes", t.nodes},
                {"weight_memory_bytes", plan.weight_memory()}}}};
  out["collectives"] = Json::array();
  for (const CollectiveCount& row : count_collectives(plan))
    out["collectives"].push_back({{"what", row.what}, {"count", row.count}, {"bytes", row.bytes}});
  out["buffers"] = Json::array();
  for (const Buffer& b : plan.buffers)
    out["buffers"].push_back({{"name", name_of(b.kind)}, {"rows", b.rows}, {"cols", b.cols}, {"bytes", b.bytes()}});
  out["steps"] = Json::array();
  for (const Step& s : plan.steps) {
    const Cost c = cost_of(s.op);
    Json step = {{"kind", name_of(s.kind)}, {"op", op_name(s.op)}, {"shape", op_text(s.op)}};
    if (s.layer != no_index) step["layer"] = s.layer;
    step.update({{"flops", c.flops},
                 {"weight_bytes", c.weight_bytes},
                 {"kv_bytes", c.kv_bytes},
                 {"activation_bytes", c.activation_bytes}});
    if (c.comm_bytes > 0) step["comm_bytes"] = c.comm_bytes;
    const auto name = [&](std::int32_t i) { return name_of(plan.buffers.at(static_cast<std::size_t>(i)).kind); };
    step["in"] = Json::array();
    for (const std::int32_t in : s.in)
      if (in != no_index) step["in"].push_back(name(in));
    step["out"] = name(s.out);
    out["steps"].push_back(std::move(step));
  }
  return out;
}

}  // namespace specstep
