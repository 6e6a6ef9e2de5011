// Emits the steps of one layer: shared by the target's builder and the draft's.
#pragma once

#include "model/build_plan.h"

namespace specstep {

/// A layer as its builder needs it, wherever it comes from.
struct LayerModel {
  const AttentionSpec& attention;
  const LayerKind& kind;
  const MlpSpec& mlp;
  const WeightFormats& weights;
  bool moe = false;
  std::int64_t hidden = 0;
  std::int64_t input_width = 0;  // of the attention projections: 2 hidden for an EAGLE-3 draft
  DType kv = DType::bf16;
};

/// Key/value heads each rank holds: split while there are enough, then replicated.
std::int64_t local_kv_heads(const AttentionSpec& attention, std::int64_t ranks);
/// Cached values of one token and layer on one rank (mla: whole on each).
std::int64_t local_cached_values(const AttentionSpec& attention, std::int64_t ranks);
/// Rows of a vocabulary matrix on one rank, padded up.
std::int64_t local_vocab(std::int64_t vocab, std::int64_t ranks);

class LayerBuilder {
 public:
  LayerBuilder(Plan& plan, const PlanOptions& options);

  /// Rows of the table into `out`: the residual stream of a target; a draft keeps that for the hidden state it is
  /// given.
  void embed(std::int64_t vocab, std::int64_t hidden, const WeightFormat& format,
             BufferKind out = BufferKind::residual);
  /// A buffer that the caller of the pass fills: features or hidden states of another pass.
  void given(BufferKind kind, std::int64_t rows, std::int64_t cols) { buffer(kind, rows, cols); }
  /// Both halves of layer `index`; `first` has no residual to add yet.
  void layer(const LayerModel& model, std::int32_t index, bool first);
  void head(std::int64_t vocab, std::int64_t hidden, const WeightFormat& format, SampleKind sample);

  /// Tokens that attention handles on this rank, and that the rest handles.
  std::int64_t attention_tokens() const { return attention_sequences_ * plan_.shape.tokens_each; }
  std::int64_t tokens() const { return plan_.shape.tokens(); }
  /// Of the tokens that attention handles on this rank, those of padding.
  std::int64_t padding_tokens() const { return attention_padding_ * plan_.shape.tokens_each; }

  struct Matrix {
    std::int64_t n = 0, k = 0;
    WeightFormat format;
    Shard shard = Shard::replicated;
    std::int64_t batches = 1;
  };
  void gemm(StepKind kind, std::int64_t rows, const Matrix& w, BufferKind in, BufferKind out);
  void norm(StepKind kind, std::int64_t rows, std::int64_t width, bool residual, BufferKind in, BufferKind out);
  void allreduce(StepKind kind, std::int64_t elements, std::int64_t ranks, bool in_layer, BufferKind buffer);

 private:
  void attention_half(const LayerModel& m, bool first);
  void project_gqa(const LayerModel& m);
  void project_mla(const LayerModel& m);
  void sparse_index(const LayerModel& m);
  void attend(const LayerModel& m);
  bool exchanges_context() const;
  void gather_queries(const LayerModel& m, std::int64_t width);
  void gather_context(const LayerModel& m);
  void join_parts(std::int64_t heads, std::int64_t value_dim);
  void linear_attention(const LayerModel& m);
  void mlp_half(const LayerModel& m);
  void dense_mlp(const LayerModel& m, std::int64_t rows, BufferKind in);
  void moe_mlp(const LayerModel& m, std::int64_t rows, BufferKind in);
  void experts(const LayerModel& m, std::int64_t rows, BufferKind in);
  void shared_experts(const LayerModel& m, std::int64_t rows, BufferKind in);

  double context_ranks() const { return static_cast<double>(plan_.layout.context); }
  std::int32_t buffer(BufferKind kind, std::int64_t rows, std::int64_t cols, double bytes_per_value = 2);
  std::int32_t existing(BufferKind kind) const;
  std::int32_t weight(StepKind kind, const Matrix& m, std::int64_t count);
  void step(StepKind kind, Op op, std::vector<BufferKind> in, std::int32_t out, std::int32_t weight = no_index,
            Lane lane = Lane::compute);

  Plan& plan_;
  const PlanOptions& options_;
  std::int64_t attention_sequences_;
  std::int64_t attention_padding_;  // of these
  double met_ = -1;                 // experts that the pass meets in a layer; the same in all layers
  double fullest_ = 0;              // of these on the group of ranks that holds the most
  std::int32_t layer_ = no_index;
};

}  // namespace specstep
