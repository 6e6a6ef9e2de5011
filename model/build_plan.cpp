// Stacks and drafts to plans.
#include "model/build_plan.h"

#include <algorithm>

#include "model/base/formatted.h"
#include "model/layer_builder.h"

namespace specstep {

namespace {

const LayerKind& full_attention() {
  static const LayerKind kind;
  return kind;
}

ParallelLayout draft_layout(const ParallelLayout& layout) {
  ParallelLayout out = layout;
  if (layout.draft_tensor == 1) out = {.tensor = 1, .expert = 1, .attention_data = 1, .context = 1};
  out.draft_tensor = 0;
  return out;
}

Plan empty_plan(const std::string& model, const ParallelLayout& layout, const PassShape& shape, std::int64_t layers) {
  Plan plan;
  plan.model = model;
  plan.layout = layout;
  plan.shape = shape;
  plan.layers = layers;
  return plan;
}

/// Whether a step is the norm of the very rows that the step before it summed, behind a residual sum. Of a prompt only
/// the last token is normed at the end, which is another kernel's work.
bool norms_the_sum(const Step& reduces, const Step& norms) {
  const auto* sum = std::get_if<AllReduce>(&reduces.op);
  const auto* norm = std::get_if<RmsNorm>(&norms.op);
  return sum && norm && sum->in_layer && norm->residual && norms.in[0] == reduces.out &&
         norm->rows * norm->width == sum->elements;
}

/// Puts one step in place of each allreduce and norm that can be one kernel. It keeps the label of the allreduce, and
/// the gain of the norm as its weight.
void fuse_norms(Plan& plan, const PlanOptions& options) {
  if (!options.fuses_norm) return;
  std::vector<Step> steps;
  steps.reserve(plan.steps.size());
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    Step& step = steps.emplace_back(std::move(plan.steps[i]));
    if (i + 1 == plan.steps.size() || !norms_the_sum(step, plan.steps[i + 1])) continue;
    const auto sum = std::get<AllReduce>(step.op);
    if (!options.fuses_norm(sum)) continue;
    const Step& norm = plan.steps[++i];
    step.op = AllReduceNorm{sum, std::get<RmsNorm>(norm.op)};
    step.weight = norm.weight;
    step.out = norm.out;
  }
  plan.steps = std::move(steps);
}

}  // namespace

Plan build_plan(const StackSpec& stack, const ParallelLayout& layout, const PassShape& shape,
                const PlanOptions& options) {
  Plan plan = empty_plan(stack.name, layout, shape, stack.layers);
  plan.steps.reserve(static_cast<std::size_t>(stack.layers) * 28 + 8);
  LayerBuilder build(plan, options);
  build.embed(stack.vocab, stack.hidden, stack.weights.of(stack.weights.embedding));
  for (std::int64_t i = 0; i < stack.layers; ++i) {
    const LayerModel layer{stack.attention, stack.layer(i), stack.mlp,    stack.weights,
                           stack.is_moe(i), stack.hidden,   stack.hidden, stack.kv};
    build.layer(layer, static_cast<std::int32_t>(i), i == 0);
  }
  const SampleKind sample = shape.kind == PassKind::verify ? SampleKind::verify : SampleKind::sample;
  build.head(stack.vocab, stack.hidden, stack.weights.of(stack.weights.head), sample);
  fuse_norms(plan, options);
  return plan;
}

Plan build_draft_plan(const DraftSpec& draft, const ParallelLayout& layout, const PassShape& shape,
                      const PlanOptions& options) {
  Plan plan = empty_plan(draft.name, draft_layout(layout), shape, draft.layers);
  plan.draft = true;
  LayerBuilder build(plan, options);
  const std::int64_t hidden = draft.hidden;
  const std::int64_t target = draft.target_hidden > 0 ? draft.target_hidden : hidden;
  build.embed(draft.embedding_rows > 0 ? draft.embedding_rows : draft.vocab, hidden,
              draft.weights.of(draft.weights.embedding), BufferKind::normed);
  const bool eagle = draft.method == DraftMethod::eagle3;
  // The features of the target come in with the verified tokens; a draft step goes on from its own hidden state.
  if (eagle && shape.kind != PassKind::draft) {
    build.given(BufferKind::features, build.attention_tokens(), draft.fusion_taps * target);
    build.gemm(StepKind::fuse_features, build.attention_tokens(),
               {hidden, draft.fusion_taps * target, draft.weights.rest}, BufferKind::features, BufferKind::residual);
  } else {
    build.given(BufferKind::residual, build.attention_tokens(), hidden);
  }
  build.norm(StepKind::embed_norm, build.attention_tokens(), hidden, false, BufferKind::normed, BufferKind::pair);
  build.norm(StepKind::hidden_norm, build.attention_tokens(), hidden, false, BufferKind::residual, BufferKind::pair);
  if (!eagle)
    build.gemm(StepKind::combine_features, build.attention_tokens(), {hidden, 2 * hidden, draft.weights.rest},
               BufferKind::pair, BufferKind::residual);
  for (std::int64_t i = 0; i < draft.layers; ++i) {
    const bool pair_in = eagle && i == 0;
    const bool moe = draft.mlp.kind == MlpKind::moe && i >= draft.mlp.leading_dense_layers;
    const LayerModel layer{
        draft.attention, full_attention(), draft.mlp, draft.weights, moe, hidden, pair_in ? 2 * hidden : hidden,
        draft.kv};
    build.layer(layer, static_cast<std::int32_t>(i), i == 0);
  }
  build.head(draft.vocab, hidden, draft.weights.of(draft.weights.head), SampleKind::draft);
  fuse_norms(plan, options);
  return plan;
}

namespace {

/// What a number of ranks cannot divide, gathered so that one wrong number is one fault.
class Divisions {
 public:
  explicit Divisions(Checker& checker) : checker_(checker) {}
  void need(std::int64_t value, std::int64_t ranks, const std::string& what) {
    if (ranks <= 1 || value % ranks == 0) return;
    ranks_ = ranks;
    add(formatted("{} ({})", what, value));
  }
  void attention(const AttentionSpec& a, std::int64_t ranks, const std::string& who) {
    need(a.heads, ranks, who + "heads");
    if (a.kind != AttentionKind::gqa || a.kv_heads % ranks == 0 || ranks % a.kv_heads == 0) return;
    ranks_ = ranks;
    add(formatted("{}key/value heads ({}, which may also divide the ranks)", who, a.kv_heads));
  }
  /// Ranks can split a cache's tokens only where they would hold the same heads.
  void context(const AttentionSpec& a, const ParallelLayout& layout, const std::string& who) {
    const std::int64_t ranks = layout.attention_tensor();
    const std::int64_t alike =
        a.kind == AttentionKind::mla ? ranks : ranks / std::clamp<std::int64_t>(a.kv_heads, 1, ranks);
    if (layout.context > 1 && alike % layout.context != 0)
      checker_.fail("parallel.context", formatted("is {}", layout.context),
                    formatted("a divisor of {}: so many ranks hold the same cached heads of {}attention{}", alike, who,
                              a.kind == AttentionKind::mla ? "" : "; with mla all of them do"));
  }
  void mlp(const MlpSpec& m, const ParallelLayout& layout, const std::string& who) {
    if (m.kind == MlpKind::dense || m.leading_dense_layers > 0) need(m.intermediate, layout.tensor, who + "mlp width");
    if (m.kind == MlpKind::dense) {
      if (layout.expert > 1 && who == "the ")
        checker_.fail("parallel.expert", formatted("is {}", layout.expert), "1: this stack has no experts");
      return;
    }
    need(m.expert_intermediate, layout.expert_tensor(), who + "expert width");
    const bool whole = layout.expert == layout.tensor && layout.attention_data > 1;
    const std::int64_t one = m.shared_intermediate > 0 ? m.shared_intermediate : m.expert_intermediate;
    if (!whole) need(one * m.shared_experts, layout.tensor, who + "shared-expert width");
    if (m.experts % layout.expert != 0)
      checker_.fail("parallel.expert", formatted("is {}", layout.expert),
                    formatted("a divisor of {}experts ({})", who, m.experts));
  }
  void report() {
    if (!wrong_.empty())
      checker_.fail("parallel.tensor", formatted("splits over {} ranks", ranks_), "a number that divides " + wrong_);
  }

 private:
  void add(const std::string& what) { wrong_ += (wrong_.empty() ? "" : ", ") + what; }
  Checker& checker_;
  std::int64_t ranks_ = 1;
  std::string wrong_;
};

}  // namespace

void check_layout(const StackSpec& stack, const ParallelLayout& layout, Checker& c) {
  Divisions divide(c);
  bool softmax = false;
  for (const LayerKind& kind : stack.pattern) {
    softmax = softmax || kind.attention != Span::linear;
    if (layout.context > 1 && (kind.attention == Span::sparse || kind.attention == Span::linear))
      c.fail("parallel.context", formatted("is {}", layout.context),
             "1: layers with " + name_of(kind.attention) + " attention have no cache that ranks could split by tokens");
    if (!kind.linear) continue;
    divide.need(kind.linear->key_heads, layout.attention_tensor(), "the linear key heads");
    divide.need(kind.linear->value_heads, layout.attention_tensor(), "the linear value heads");
  }
  if (softmax) divide.attention(stack.attention, layout.attention_tensor(), "the ");
  if (softmax) divide.context(stack.attention, layout, "the ");
  divide.mlp(stack.mlp, layout, "the ");
  divide.report();
}

void check_layout(const DraftSpec& draft, const ParallelLayout& layout, Checker& c) {
  if (!draft.has_model()) return;
  const ParallelLayout split = draft_layout(layout);
  Divisions divide(c);
  divide.attention(draft.attention, split.attention_tensor(), "the draft's ");
  divide.context(draft.attention, split, "the draft's ");
  divide.mlp(draft.mlp, split, "the draft's ");
  divide.report();
}

KvFootprint kv_footprint(const StackSpec& stack, const ParallelLayout& layout) {
  const std::int64_t ranks = layout.attention_tensor();
  const double row = static_cast<double>(local_cached_values(stack.attention, ranks)) * bytes_of(stack.kv) /
                     static_cast<double>(layout.context);
  KvFootprint out;
  for (std::int64_t i = 0; i < stack.layers; ++i) {
    const LayerKind& kind = stack.layer(i);
    switch (kind.attention) {
      case Span::full:
        out.bytes_per_token += row;
        break;
      case Span::window:
        out.bytes_per_sequence += row * static_cast<double>(kind.window);
        break;
      case Span::sparse:
        out.bytes_per_token += row + static_cast<double>(kind.sparse->index_dim) * bytes_of(kind.sparse->index_dtype);
        break;
      case Span::linear:
        out.bytes_per_sequence += static_cast<double>(kind.linear->state_bytes) / static_cast<double>(ranks);
        break;
    }
  }
  return out;
}

KvFootprint kv_footprint(const DraftSpec& draft, const ParallelLayout& layout) {
  if (!draft.has_model()) return {};
  const ParallelLayout split = draft_layout(layout);
  const std::int64_t values = draft.layers * local_cached_values(draft.attention, split.attention_tensor());
  return {static_cast<double>(values) * bytes_of(draft.kv) / static_cast<double>(split.context), 0};
}

double weight_memory(const StackSpec& stack, const ParallelLayout& layout) {
  const Plan plan = build_plan(stack, layout, {.kind = PassKind::decode});
  double bytes = plan.weight_memory();
  if (stack.tied_embeddings)
    for (const Weight& w : plan.weights)
      if (w.step == StepKind::lm_head) bytes -= w.bytes();
  for (const OtherWeights& other : stack.other_weights)
    bytes += other.parameters * other.format.bytes_per_value() / static_cast<double>(other.sharded ? layout.tensor : 1);
  return bytes;
}

double weight_memory(const DraftSpec& draft, const ParallelLayout& layout) {
  if (!draft.has_model()) return 0;
  const Plan plan = build_draft_plan(draft, layout, {.kind = PassKind::extend});
  double bytes = plan.weight_memory();
  for (const Weight& w : plan.weights) {
    if (w.step == StepKind::lm_head && !draft.own_head) bytes -= w.bytes();
    if (w.step == StepKind::embed && !draft.own_embedding) bytes -= w.bytes();
  }
  return bytes;
}

}  // namespace specstep
