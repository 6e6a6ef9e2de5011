// Softmax attention of a layer, and what ranks exchange when they split the tokens of a cache among them. As vLLM's
// decode context parallel does it (vllm v0.11, MLACommonImpl::forward and attention/ops/common.py, 2025-10): queries of
// the group are gathered by heads, each rank attends with all of them over its part of the tokens, logs of sums are
// gathered, parts are scaled by them and reduce-scattered by heads. A token's row lies on one rank of the group.
#include <algorithm>

#include "model/layer_builder.h"

namespace specstep {

/// A prompt is computed before it is split: its own tokens are whole on each rank.
bool LayerBuilder::exchanges_context() const {
  return plan_.layout.context > 1 && plan_.shape.kind != PassKind::prefill;
}

void LayerBuilder::gather_queries(const LayerModel& m, std::int64_t width) {
  const std::int64_t rows = attention_tokens();
  const std::int32_t all = buffer(BufferKind::group_query, rows, plan_.layout.context * width);
  const BufferKind own = m.attention.kind == AttentionKind::mla ? BufferKind::query_latent : BufferKind::qkv;
  step(StepKind::query_gather, AllGather{rows * width, DType::bf16, plan_.layout.context}, {own}, all, no_index,
       Lane::comm);
}

/// Of a prompt that goes on, the tokens before it come from all ranks of the group.
void LayerBuilder::gather_context(const LayerModel& m) {
  const std::int64_t n = plan_.layout.context;
  const std::int64_t values = local_cached_values(m.attention, plan_.layout.attention_tensor());
  const std::int64_t each = attention_sequences_ * ((plan_.shape.context + n - 1) / n);
  const std::int32_t all = buffer(BufferKind::cached_rows, n * each, values, bytes_of(m.kv));
  step(StepKind::context_gather, AllGather{each * values, m.kv, n}, {BufferKind::residual}, all, no_index, Lane::comm);
}

void LayerBuilder::join_parts(std::int64_t heads, std::int64_t value_dim) {
  const std::int64_t rows = attention_tokens();
  const std::int64_t n = plan_.layout.context;
  const std::int32_t sums = buffer(BufferKind::group_sums, n * rows, heads, 4);
  step(StepKind::sums_gather, AllGather{rows * heads, DType::f32, n}, {BufferKind::sums}, sums, no_index, Lane::comm);
  const std::int32_t out = existing(BufferKind::attended);
  step(StepKind::join_parts, AttentionJoin{rows, heads, value_dim, n}, {BufferKind::attended, BufferKind::group_sums},
       out);
  step(StepKind::parts_scatter, ReduceScatter{rows * heads * value_dim, DType::bf16, n}, {BufferKind::attended}, out,
       no_index, Lane::comm);
}

void LayerBuilder::attend(const LayerModel& m) {
  const AttentionSpec& a = m.attention;
  const std::int64_t ranks = plan_.layout.attention_tensor();
  const std::int64_t heads = a.heads / ranks;
  const bool mla = a.kind == AttentionKind::mla;
  const std::int64_t limit = m.kind.attention == Span::window   ? m.kind.window
                             : m.kind.attention == Span::sparse ? m.kind.sparse->top_k
                                                                : 0;
  const std::int64_t score = mla ? a.kv_rank + a.rope_dim : a.head_dim;
  const std::int64_t value = mla ? a.kv_rank : a.head_dim;
  // Each query of a sparse layer picks its own tokens, so queries cannot share the read. Prompts have kernels that do.
  const bool kernel_shares = options_.queries_share_cache || plan_.shape.kind == PassKind::prefill;
  const bool share = plan_.shape.queries_share_kv && kernel_shares && m.kind.attention != Span::sparse;
  const bool exchange = exchanges_context();
  const std::int64_t group = exchange ? plan_.layout.context : 1;
  if (exchange)
    gather_queries(m, heads * score);
  else if (plan_.layout.context > 1 && plan_.shape.context > 0)
    gather_context(m);
  const std::int32_t out = buffer(BufferKind::attended, attention_tokens(), group * heads * value);
  if (exchange) buffer(BufferKind::sums, attention_tokens(), group * heads, 4);
  const BufferKind query = exchange ? BufferKind::group_query : mla ? BufferKind::query_latent : BufferKind::qkv;
  step(StepKind::attention,
       Attention{a.kind, attention_sequences_, plan_.shape.tokens_each, plan_.shape.context, limit, group * heads,
                 score, value, local_cached_values(a, ranks), m.kv, share, group,
                 limit > 0 ? 0 : std::min(options_.shared_context, plan_.shape.context), attention_padding_},
       {query, m.kind.attention == Span::sparse ? BufferKind::selected : BufferKind::residual}, out);
  if (exchange) join_parts(group * heads, value);
  const WeightFormat& format = m.weights.of(m.weights.attention);
  const std::int64_t head_out = mla ? a.value_dim : a.head_dim;
  BufferKind in = BufferKind::attended;
  if (mla) {
    gemm(StepKind::absorb_v, attention_tokens(), {a.value_dim, a.kv_rank, format, Shard::column, heads}, in,
         BufferKind::query);
    in = BufferKind::query;
  }
  gemm(StepKind::o_proj, attention_tokens(), {m.hidden, heads * head_out, format, Shard::row}, in,
       BufferKind::projected);
}

}  // namespace specstep
