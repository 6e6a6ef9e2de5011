// The feed-forward half of a layer: dense, or routed and shared experts, with what moves tokens between groups.
#include <cmath>

#include "model/experts.h"
#include "model/layer_builder.h"

namespace specstep {

void LayerBuilder::mlp_half(const LayerModel& m) {
  norm(StepKind::mlp_norm, attention_tokens(), m.hidden, true, BufferKind::projected, BufferKind::normed);
  const bool by_sequence = plan_.layout.attention_data > 1;  // each group holds only its own tokens here
  const bool exchange = by_sequence && m.moe && plan_.layout.expert == plan_.layout.tensor;
  const std::int64_t groups = plan_.layout.attention_data;
  if (by_sequence && !exchange) {
    const std::int32_t all = buffer(BufferKind::exchanged, tokens(), m.hidden);
    step(StepKind::mlp_gather, AllGather{attention_tokens() * m.hidden, DType::bf16, groups}, {BufferKind::normed}, all,
         no_index, Lane::comm);
  }
  const std::int64_t rows = by_sequence && !exchange ? groups * attention_tokens() : attention_tokens();
  const BufferKind in = by_sequence && !exchange ? BufferKind::exchanged : BufferKind::normed;
  if (m.moe)
    moe_mlp(m, rows, in);
  else
    dense_mlp(m, rows, in);
  if (!by_sequence) {
    allreduce(StepKind::mlp_allreduce, rows * m.hidden, plan_.layout.tensor, true, BufferKind::projected);
  } else if (!exchange) {
    step(StepKind::mlp_scatter, ReduceScatter{rows * m.hidden, DType::bf16, plan_.layout.tensor},
         {BufferKind::projected}, existing(BufferKind::projected), no_index, Lane::comm);
  }
}

void LayerBuilder::dense_mlp(const LayerModel& m, std::int64_t rows, BufferKind in) {
  const std::int64_t width = m.mlp.intermediate / plan_.layout.tensor;
  const WeightFormat& format = m.weights.of(m.weights.mlp);
  gemm(StepKind::gate_up, rows, {2 * width, m.hidden, format, Shard::column}, in, BufferKind::gate_up);
  const std::int32_t out = buffer(BufferKind::activated, rows, width);
  step(StepKind::activation, Activation{rows, width}, {BufferKind::gate_up}, out);
  gemm(StepKind::down, rows, {m.hidden, width, format, Shard::row}, BufferKind::activated, BufferKind::projected);
}

void LayerBuilder::moe_mlp(const LayerModel& m, std::int64_t rows, BufferKind in) {
  gemm(StepKind::router, rows, {m.mlp.experts, m.hidden, m.weights.of(m.weights.router)}, in, BufferKind::scores);
  const std::int32_t routes = buffer(BufferKind::routes, rows, 2 * m.mlp.top_k, 4);
  step(StepKind::route, Router{rows, m.mlp.experts, m.mlp.top_k}, {BufferKind::scores}, routes);
  const bool exchange = plan_.layout.attention_data > 1 && plan_.layout.expert == plan_.layout.tensor;
  const AllToAll move{rows * m.mlp.top_k * m.hidden, DType::bf16, plan_.layout.expert};
  if (exchange) {
    const std::int32_t there = buffer(BufferKind::exchanged, rows * m.mlp.top_k, m.hidden);
    step(StepKind::dispatch, move, {in, BufferKind::routes}, there, no_index, Lane::comm);
  }
  experts(m, rows, exchange ? BufferKind::exchanged : in);
  if (exchange)
    step(StepKind::return_tokens, move, {BufferKind::expert_out}, existing(BufferKind::expert_out), no_index,
         Lane::comm);
  if (m.mlp.shared_experts > 0) shared_experts(m, rows, in);
  const std::int32_t sum = buffer(BufferKind::projected, rows, m.hidden);
  step(StepKind::combine_experts, Combine{rows, m.mlp.top_k, m.hidden, m.mlp.shared_experts > 0},
       {BufferKind::expert_out, BufferKind::routes,
        m.mlp.shared_experts > 0 ? BufferKind::shared_out : BufferKind::routes},
       sum);
}

void LayerBuilder::experts(const LayerModel& m, std::int64_t rows, BufferKind in) {
  const ParallelLayout& layout = plan_.layout;
  const std::int64_t local = m.mlp.experts / layout.expert;
  const std::int64_t width = m.mlp.expert_intermediate / layout.expert_tensor();
  // A prompt's tokens are one text; sequences are independent texts. All tokens of the node meet these experts.
  if (met_ < 0) {
    const Routing routing{m.mlp.experts, m.mlp.top_k, m.mlp.chain_overlap, m.mlp.popularity.value};
    met_ = expected_experts(routing, plan_.shape.real_sequences(), plan_.shape.tokens_each, plan_.shape.padding > 0);
    fullest_ = fullest_rank(m.mlp.experts, layout.expert, met_);
  }
  const std::int64_t all_rows = layout.attention_data > 1 ? layout.attention_data * attention_tokens() : rows;
  // The rank with the most experts decides when the pass goes on; its rows are taken to be as many more.
  const double pairs = met_ > 0 ? static_cast<double>(all_rows * m.mlp.top_k) * fullest_ / met_ : 0;
  const WeightFormat& format = m.weights.of(m.weights.experts);
  const auto grouped = [&](StepKind kind, const Matrix& w, BufferKind source, BufferKind out) {
    const std::int32_t target = buffer(out, all_rows * m.mlp.top_k, w.n);
    step(kind, GroupedGemm{all_rows, m.mlp.top_k, local, fullest_, pairs, w.n, w.k, format},
         {source, BufferKind::routes}, target, weight(kind, w, local));
  };
  grouped(StepKind::expert_gate_up, {2 * width, m.hidden, format, Shard::expert}, in, BufferKind::expert_gate_up);
  const auto pair_rows = static_cast<std::int64_t>(std::llround(pairs));
  const std::int32_t activated = buffer(BufferKind::expert_activated, all_rows * m.mlp.top_k, width);
  step(StepKind::expert_activation, Activation{pair_rows, width}, {BufferKind::expert_gate_up}, activated);
  grouped(StepKind::expert_down, {m.hidden, width, format, Shard::expert}, BufferKind::expert_activated,
          BufferKind::expert_out);
}

void LayerBuilder::shared_experts(const LayerModel& m, std::int64_t rows, BufferKind in) {
  // Where whole experts travel, each rank keeps the shared expert whole; else it is split like a dense layer.
  const bool whole = plan_.layout.attention_data > 1 && plan_.layout.expert == plan_.layout.tensor;
  const std::int64_t one = m.mlp.shared_intermediate > 0 ? m.mlp.shared_intermediate : m.mlp.expert_intermediate;
  const std::int64_t width = one * m.mlp.shared_experts / (whole ? 1 : plan_.layout.tensor);
  const WeightFormat& format = m.weights.of(m.weights.shared_experts);
  gemm(StepKind::shared_gate_up, rows, {2 * width, m.hidden, format, Shard::column}, in, BufferKind::shared_gate_up);
  const std::int32_t activated = buffer(BufferKind::shared_activated, rows, width);
  step(StepKind::shared_activation, Activation{rows, width}, {BufferKind::shared_gate_up}, activated);
  gemm(StepKind::shared_down, rows, {m.hidden, width, format, Shard::row}, BufferKind::shared_activated,
       BufferKind::shared_out);
}

}  // namespace specstep
