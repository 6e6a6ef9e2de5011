// The steps of a layer, in the order engines run them (SGLang and vLLM decoder layers; DeepSeek-style mla with
// absorbed projections in all passes that read a cache).
#include "model/layer_builder.h"

#include <algorithm>

namespace specstep {

namespace {
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
}  // namespace

std::int64_t local_kv_heads(const AttentionSpec& attention, std::int64_t ranks) {
  return std::max<std::int64_t>(1, attention.kv_heads / ranks);
}
std::int64_t local_cached_values(const AttentionSpec& attention, std::int64_t ranks) {
  if (attention.kind == AttentionKind::mla) return attention.cached_values();
  return 2 * local_kv_heads(attention, ranks) * attention.head_dim;
}
std::int64_t local_vocab(std::int64_t vocab, std::int64_t ranks) { return ceil_div(vocab, ranks); }

LayerBuilder::LayerBuilder(Plan& plan, const PlanOptions& options)
    : plan_(plan),
      options_(options),
      attention_sequences_(ceil_div(plan.shape.sequences, plan.layout.attention_data)),
      attention_padding_(attention_sequences_ - ceil_div(plan.shape.real_sequences(), plan.layout.attention_data)) {}

std::int32_t LayerBuilder::buffer(BufferKind kind, std::int64_t rows, std::int64_t cols, double bytes_per_value) {
  const auto found =
      std::find_if(plan_.buffers.begin(), plan_.buffers.end(), [&](const Buffer& b) { return b.kind == kind; });
  if (found == plan_.buffers.end()) {
    plan_.buffers.push_back({kind, rows, cols, bytes_per_value});
    return static_cast<std::int32_t>(plan_.buffers.size()) - 1;
  }
  found->rows = std::max(found->rows, rows);
  found->cols = std::max(found->cols, cols);
  return static_cast<std::int32_t>(found - plan_.buffers.begin());
}

std::int32_t LayerBuilder::existing(BufferKind kind) const {
  const auto found =
      std::find_if(plan_.buffers.begin(), plan_.buffers.end(), [&](const Buffer& b) { return b.kind == kind; });
  return found == plan_.buffers.end() ? no_index : static_cast<std::int32_t>(found - plan_.buffers.begin());
}

std::int32_t LayerBuilder::weight(StepKind kind, const Matrix& m, std::int64_t count) {
  plan_.weights.push_back({layer_, kind, count, m.n, m.k, m.format, m.shard});
  return static_cast<std::int32_t>(plan_.weights.size()) - 1;
}

void LayerBuilder::step(StepKind kind, Op op, std::vector<BufferKind> in, std::int32_t out, std::int32_t weight,
                        Lane lane) {
  Step s{std::move(op), kind, layer_, lane, weight, {no_index, no_index, no_index}, out};
  for (std::size_t i = 0; i < in.size(); ++i) s.in.at(i) = existing(in[i]);
  plan_.steps.push_back(std::move(s));
}

void LayerBuilder::gemm(StepKind kind, std::int64_t rows, const Matrix& w, BufferKind in, BufferKind out) {
  const std::int32_t target = buffer(out, rows, w.n * w.batches);
  step(kind, Gemm{rows, w.n, w.k, w.batches, w.format}, {in}, target, weight(kind, w, w.batches));
}

void LayerBuilder::norm(StepKind kind, std::int64_t rows, std::int64_t width, bool residual, BufferKind in,
                        BufferKind out) {
  const Matrix gain{width, 1, WeightFormat{}};
  const std::int32_t target = buffer(out, rows, width);
  step(kind, RmsNorm{rows, width, residual}, {in}, target, weight(kind, gain, 1));
}

void LayerBuilder::allreduce(StepKind kind, std::int64_t elements, std::int64_t ranks, bool in_layer,
                             BufferKind buffer) {
  if (ranks <= 1) return;
  step(kind, AllReduce{elements, DType::bf16, ranks, in_layer}, {buffer}, existing(buffer), no_index, Lane::comm);
}

void LayerBuilder::embed(std::int64_t vocab, std::int64_t hidden, const WeightFormat& format, BufferKind kind) {
  layer_ = no_index;
  const bool split = plan_.layout.tensor > 1 && plan_.layout.attention_data == 1;
  const Matrix table{split ? local_vocab(vocab, plan_.layout.tensor) : vocab, hidden, format,
                     split ? Shard::row : Shard::replicated};
  buffer(BufferKind::tokens, attention_tokens(), 1, 4);
  const std::int32_t out = buffer(kind, attention_tokens(), hidden);
  step(StepKind::embed, Embed{attention_tokens(), hidden, format}, {BufferKind::tokens}, out,
       weight(StepKind::embed, table, 1));
  if (split && options_.embedding_allreduce)
    allreduce(StepKind::embed_allreduce, attention_tokens() * hidden, plan_.layout.tensor, false, kind);
}

void LayerBuilder::layer(const LayerModel& model, std::int32_t index, bool first) {
  layer_ = index;
  attention_half(model, first);
  mlp_half(model);
  layer_ = no_index;
}

void LayerBuilder::attention_half(const LayerModel& m, bool first) {
  // An EAGLE-3 draft concatenates two normed rows itself; everybody else norms the residual stream here.
  if (m.input_width == m.hidden)
    norm(StepKind::attention_norm, attention_tokens(), m.hidden, !first,
         first ? BufferKind::residual : BufferKind::projected, BufferKind::normed);
  if (m.kind.attention == Span::linear) {
    linear_attention(m);
  } else {
    if (m.attention.kind == AttentionKind::mla)
      project_mla(m);
    else
      project_gqa(m);
    if (m.kind.attention == Span::sparse) sparse_index(m);
    attend(m);
  }
  allreduce(StepKind::attention_allreduce, attention_tokens() * m.hidden, plan_.layout.attention_tensor(), true,
            BufferKind::projected);
}

void LayerBuilder::project_gqa(const LayerModel& m) {
  const std::int64_t ranks = plan_.layout.attention_tensor();
  const std::int64_t heads = m.attention.heads / ranks;
  const std::int64_t kv_heads = local_kv_heads(m.attention, ranks);
  const std::int64_t dim = m.attention.head_dim;
  const WeightFormat& format = m.weights.of(m.weights.attention);
  const BufferKind in = m.input_width == m.hidden ? BufferKind::normed : BufferKind::pair;
  gemm(StepKind::qkv, attention_tokens(), {(heads + 2 * kv_heads) * dim, m.input_width, format, Shard::column}, in,
       BufferKind::qkv);
  if (m.attention.qk_norm)
    norm(StepKind::qk_norm, attention_tokens() * (heads + kv_heads), dim, false, BufferKind::qkv, BufferKind::qkv);
  const double appended = static_cast<double>(2 * kv_heads * dim) * bytes_of(m.kv) / context_ranks();
  step(StepKind::rope, Rope{attention_tokens(), (heads + kv_heads) * dim, appended, padding_tokens()},
       {BufferKind::qkv}, existing(BufferKind::qkv));
}

void LayerBuilder::project_mla(const LayerModel& m) {
  const AttentionSpec& a = m.attention;
  const std::int64_t heads = a.heads / plan_.layout.attention_tensor();
  const WeightFormat& format = m.weights.of(m.weights.attention);
  const BufferKind in = m.input_width == m.hidden ? BufferKind::normed : BufferKind::pair;
  const std::int64_t rows = attention_tokens();
  const std::int64_t query = heads * (a.nope_dim + a.rope_dim);
  if (a.q_rank > 0) {
    gemm(StepKind::qkv_a, rows, {a.q_rank + a.kv_rank + a.rope_dim, m.input_width, format}, in, BufferKind::latent);
    norm(StepKind::q_a_norm, rows, a.q_rank, false, BufferKind::latent, BufferKind::latent);
    norm(StepKind::kv_a_norm, rows, a.kv_rank, false, BufferKind::latent, BufferKind::latent);
    gemm(StepKind::q_b, rows, {query, a.q_rank, format, Shard::column}, BufferKind::latent, BufferKind::query);
  } else {
    gemm(StepKind::qkv_a, rows, {a.kv_rank + a.rope_dim, m.input_width, format}, in, BufferKind::latent);
    norm(StepKind::kv_a_norm, rows, a.kv_rank, false, BufferKind::latent, BufferKind::latent);
    gemm(StepKind::q_b, rows, {query, m.input_width, format, Shard::column}, in, BufferKind::query);
  }
  gemm(StepKind::absorb_q, rows, {a.kv_rank, a.nope_dim, format, Shard::column, heads}, BufferKind::query,
       BufferKind::query_latent);
  const double appended = static_cast<double>(a.cached_values()) * bytes_of(m.kv) / context_ranks();
  step(StepKind::rope, Rope{rows, (heads + 1) * a.rope_dim, appended, padding_tokens()},
       {BufferKind::query, BufferKind::latent}, existing(BufferKind::query));
}

void LayerBuilder::sparse_index(const LayerModel& m) {
  const SparseSpec& s = *m.kind.sparse;
  const WeightFormat& format = m.weights.of(m.weights.attention);
  const std::int64_t rows = attention_tokens();
  const bool latent = m.attention.kind == AttentionKind::mla && m.attention.q_rank > 0;
  const BufferKind in = latent ? BufferKind::latent : BufferKind::normed;
  gemm(StepKind::index_q, rows, {s.index_heads * s.index_dim, latent ? m.attention.q_rank : m.hidden, format}, in,
       BufferKind::index_query);
  gemm(StepKind::index_k, rows, {s.index_dim + s.index_heads, m.hidden, format}, BufferKind::normed,
       BufferKind::index_key);
  const std::int32_t out = buffer(BufferKind::selected, rows, s.top_k, 4);
  step(StepKind::index,
       SparseIndex{attention_sequences_, plan_.shape.tokens_each, plan_.shape.context, s.index_heads, s.index_dim,
                   s.top_k, s.index_dtype, plan_.shape.queries_share_kv, attention_padding_},
       {BufferKind::index_query, BufferKind::index_key}, out);
}

void LayerBuilder::linear_attention(const LayerModel& m) {
  const LinearSpec& l = *m.kind.linear;
  const std::int64_t ranks = plan_.layout.attention_tensor();
  const WeightFormat& format = m.weights.of(m.weights.attention);
  const std::int64_t rows = attention_tokens();
  const std::int64_t values = l.value_heads / ranks * l.value_dim;
  gemm(StepKind::linear_in, rows, {2 * (l.key_heads / ranks) * l.key_dim + 2 * values, m.hidden, format, Shard::column},
       BufferKind::normed, BufferKind::qkv);
  gemm(StepKind::linear_gates, rows, {2 * (l.value_heads / ranks), m.hidden, format, Shard::column}, BufferKind::normed,
       BufferKind::latent);
  const std::int32_t out = buffer(BufferKind::attended, rows, values);
  step(StepKind::linear_attention,
       LinearAttention{attention_sequences_, plan_.shape.tokens_each, l.value_heads / ranks, l.key_dim, l.value_dim,
                       l.state_bytes / ranks, attention_padding_},
       {BufferKind::qkv, BufferKind::latent}, out);
  gemm(StepKind::o_proj, rows, {m.hidden, values, format, Shard::row}, BufferKind::attended, BufferKind::projected);
}

void LayerBuilder::head(std::int64_t vocab, std::int64_t hidden, const WeightFormat& format, SampleKind sample) {
  layer_ = no_index;
  const std::int64_t ranks = plan_.layout.tensor;
  const bool last_only = plan_.shape.kind == PassKind::prefill;  // only the last token of a prompt needs logits
  const std::int64_t own = last_only ? attention_sequences_ : attention_tokens();
  norm(StepKind::final_norm, own, hidden, true, BufferKind::projected, BufferKind::normed);
  std::int64_t rows = own;
  if (plan_.layout.attention_data > 1) {
    rows = own * plan_.layout.attention_data;
    const std::int32_t all = buffer(BufferKind::exchanged, rows, hidden);
    step(StepKind::head_gather, AllGather{own * hidden, DType::bf16, plan_.layout.attention_data}, {BufferKind::normed},
         all, no_index, Lane::comm);
  }
  const std::int64_t part = local_vocab(vocab, ranks);
  gemm(StepKind::lm_head, rows, {part, hidden, format, Shard::column},
       plan_.layout.attention_data > 1 ? BufferKind::exchanged : BufferKind::normed, BufferKind::logits_part);
  const bool gather = ranks > 1 && options_.logits_gather;
  if (gather) {
    const std::int32_t logits = buffer(BufferKind::logits, rows, part * ranks);
    step(StepKind::logits_gather, AllGather{rows * part, DType::bf16, ranks}, {BufferKind::logits_part}, logits,
         no_index, Lane::comm);
  }
  const std::int32_t ids = buffer(BufferKind::ids, rows, 1, 4);
  step(StepKind::sample, Sample{sample, rows, gather ? part * ranks : part, 1},
       {gather ? BufferKind::logits : BufferKind::logits_part}, ids);
}

}  // namespace specstep
