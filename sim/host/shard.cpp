#include "sim/host/shard.h"

#include <algorithm>
#include <numeric>

#include "model/layer_builder.h"

namespace specstep::host {

namespace {

/// Stacked parts of a fused matrix: `local` rows of a part that is `whole` rows long, from `begin` on.
struct Section {
  std::int64_t local = 0, whole = 0, begin = 0;
};

/// Rows that an even split gives: index `i` of `parts`.
Section even(std::int64_t local, std::int64_t parts, std::int64_t i) { return {local, local * parts, local * i}; }

std::vector<std::int64_t> stacked(const std::vector<Section>& sections) {
  std::vector<std::int64_t> rows;
  std::int64_t offset = 0;
  for (const Section& s : sections) {
    for (std::int64_t i = 0; i < s.local; ++i) rows.push_back(offset + s.begin + i);
    offset += s.whole;
  }
  return rows;
}

std::vector<std::int64_t> counted(std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

class Cutter {
 public:
  Cutter(const Plan& plan, const Weight& weight, int rank, const ModelView& model)
      : weight_(weight), model_(model), layout_(plan.layout), rank_(rank) {}

  Cut cut() const {
    Cut out{counted(0, weight_.count), counted(0, weight_.rows), 0, weight_.cols};
    switch (weight_.shard) {
      case Shard::replicated:
        if (weight_.step == StepKind::embed) out.rows = vocabulary(0, model_.embedding_rows);
        break;
      case Shard::row:
        if (weight_.step == StepKind::embed)
          out.rows = vocabulary(rank_ * weight_.rows, model_.embedding_rows);
        else
          cut_columns(out);
        break;
      case Shard::column:
        cut_rows(out);
        break;
      case Shard::expert:
        cut_experts(out);
        break;
    }
    return out;
  }

 private:
  std::int64_t attention_parts() const { return layout_.attention_tensor(); }
  std::int64_t attention_index() const { return rank_ % layout_.attention_tensor(); }
  bool whole_shared_expert() const { return layout_.attention_data > 1 && layout_.expert == layout_.tensor; }

  std::vector<std::int64_t> vocabulary(std::int64_t first, std::int64_t whole) const {
    std::vector<std::int64_t> rows = counted(first, weight_.rows);
    std::replace_if(
        rows.begin(), rows.end(), [whole](std::int64_t r) { return r >= whole; }, -1);
    return rows;
  }
  /// Splits the input: o_proj over attention ranks, the mlp over all.
  void cut_columns(Cut& out) const {
    const bool attention = weight_.step == StepKind::o_proj;
    const bool whole = weight_.step == StepKind::shared_down && whole_shared_expert();
    const std::int64_t parts = attention ? attention_parts() : whole ? 1 : layout_.tensor;
    out.first_col = (attention ? attention_index() : whole ? 0 : rank_) * weight_.cols;
    out.whole_cols = parts * weight_.cols;
  }
  void cut_rows(Cut& out) const {
    const std::int64_t parts = attention_parts();
    const std::int64_t index = attention_index();
    switch (weight_.step) {
      case StepKind::qkv: {
        const AttentionSpec& a = model_.attention;
        const std::int64_t kv = local_kv_heads(a, parts) * a.head_dim;
        const Section heads{kv, a.kv_heads * a.head_dim, first_kv_head(a, parts, index) * a.head_dim};
        out.rows = stacked({even(a.heads / parts * a.head_dim, parts, index), heads, heads});
        break;
      }
      case StepKind::absorb_q:
      case StepKind::absorb_v:
        out.matrices = counted(index * weight_.count, weight_.count);
        break;
      case StepKind::linear_in: {
        const LinearSpec& l = *model_.layer(weight_.layer).linear;
        const Section keys = even(l.key_heads / parts * l.key_dim, parts, index);
        const Section values = even(l.value_heads / parts * l.value_dim, parts, index);
        out.rows = stacked({keys, keys, values, values});
        break;
      }
      case StepKind::linear_gates:
        out.rows = halves(parts, index);
        break;
      case StepKind::gate_up:
        out.rows = halves(layout_.tensor, rank_);
        break;
      case StepKind::shared_gate_up:
        if (!whole_shared_expert()) out.rows = halves(layout_.tensor, rank_);
        break;
      case StepKind::lm_head:
        out.rows = vocabulary(rank_ * weight_.rows, model_.vocab);
        break;
      default:
        out.rows = counted(index * weight_.rows, weight_.rows);
        break;
    }
  }
  /// Two stacked halves of the same width.
  std::vector<std::int64_t> halves(std::int64_t parts, std::int64_t index) const {
    const Section half = even(weight_.rows / 2, parts, index);
    return stacked({half, half});
  }
  void cut_experts(Cut& out) const {
    const std::int64_t parts = layout_.expert_tensor();
    out.matrices = counted(rank_ / parts * weight_.count, weight_.count);
    if (weight_.step == StepKind::expert_gate_up) {
      out.rows = halves(parts, rank_ % parts);
    } else {
      out.first_col = rank_ % parts * weight_.cols;
      out.whole_cols = parts * weight_.cols;
    }
  }

  const Weight& weight_;
  const ModelView& model_;
  const ParallelLayout& layout_;
  std::int64_t rank_;
};

}  // namespace

std::int64_t first_kv_head(const AttentionSpec& a, std::int64_t ranks, std::int64_t rank) {
  return a.kv_heads >= ranks ? rank * (a.kv_heads / ranks) : rank * a.kv_heads / ranks;
}

Cut cut_of(const Plan& plan, const Weight& weight, int rank, const ModelView& model) {
  return Cutter(plan, weight, rank, model).cut();
}

ModelView view_of(const StackSpec& s, const DraftSpec* draft) {
  ModelView v{.attention = s.attention,
              .mlp = s.mlp,
              .pattern = s.pattern,
              .layers = s.layers,
              .hidden = s.hidden,
              .vocab = s.vocab,
              .embedding_rows = s.vocab,
              .kv = s.kv,
              .tied = s.tied_embeddings};
  if (draft && draft->method == DraftMethod::eagle3)
    for (std::int64_t t = 0; t < draft->fusion_taps; ++t)
      v.taps.push_back((t + 1) * s.layers / (draft->fusion_taps + 1));
  v.last_hidden_features = draft && draft->method == DraftMethod::nextn;
  return v;
}

ModelView view_of(const DraftSpec& d) {
  return {.draft = true,
          .attention = d.attention,
          .mlp = d.mlp,
          .layers = d.layers,
          .hidden = d.hidden,
          .vocab = d.vocab,
          .embedding_rows = d.embedding_rows > 0 ? d.embedding_rows : d.vocab,
          .kv = d.kv,
          .own_embedding = d.own_embedding,
          .own_head = d.own_head};
}

}  // namespace specstep::host
