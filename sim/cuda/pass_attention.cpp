// Attention of a rank: rotation and cache, softmax over what a token sees, the sparse index, the linear recurrence.
#include <cmath>

#include "sim/cuda/pass.h"

namespace specstep::cuda {

void RankPass::compute(const Rope&) {
  const AttentionSpec& a = attention();
  const Cache cache = rank_.caches().kv(step_->layer);
  const std::int64_t heads = a.heads / plan_.layout.attention_tensor();
  if (a.kind == AttentionKind::mla) {
    const RopeMla call{
        buffer(BufferKind::query), buffer(BufferKind::latent), heads, a.nope_dim, a.rope_dim, a.q_rank, a.kv_rank};
    return rope_append(call, cache, inputs_.meta(), rank_.rotations(), real(), stream());
  }
  const RopeGqa call{buffer(BufferKind::qkv), heads, cache.values / (2 * a.head_dim), a.head_dim};
  rope_append(call, cache, inputs_.meta(), rank_.rotations(), real(), stream());
}

void RankPass::compute(const Attention& op) {
  const AttentionSpec& a = attention();
  AttentionCall call{.op = op, .out = out(), .workspace = at(places_.attention)};
  if (op.kind == AttentionKind::mla) {
    call.query = buffer(BufferKind::query_latent);
    call.query_stride = op.heads * a.kv_rank;
    call.rotated = buffer(BufferKind::query);
    call.nope_dim = a.nope_dim;
    call.rope_dim = a.rope_dim;
    call.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(a.nope_dim + a.rope_dim)));
  } else {
    call.query = buffer(BufferKind::qkv);
    call.query_stride = op.heads * op.score_dim + rank_.caches().kv(step_->layer).values;
    call.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(op.score_dim)));
  }
  if (model().layer(step_->layer).attention == Span::sparse)
    call.selected = reinterpret_cast<const std::int32_t*>(buffer(BufferKind::selected));
  attend(call, rank_.caches().kv(step_->layer), inputs_.meta(), real(), stream());
}

void RankPass::compute(const AttentionJoin&) {
  throw Unsupported("the cuda executor keeps whole caches: parallel.context is 1 here");
}

void RankPass::compute(const SparseIndex& op) {
  const IndexCall call{op, in(0), in(1), reinterpret_cast<std::int32_t*>(out()), at(places_.index)};
  sparse_index(call, rank_.caches().index(step_->layer), inputs_.meta(), real(), stream());
}

void RankPass::compute(const LinearAttention& op) {
  const std::int64_t key_heads = model().layer(step_->layer).linear->key_heads / plan_.layout.attention_tensor();
  const bool prompt = plan_.shape.kind == PassKind::prefill;  // committed as it is computed
  const LinearCall call{.op = op,
                        .qkvz = in(0),
                        .key_heads = key_heads,
                        .gates = in(1),
                        .gates_stride = 2 * op.value_heads,
                        .out = out(),
                        .state = rank_.caches().state(step_->layer),
                        .after = prompt ? nullptr : rank_.caches().after(step_->layer),
                        .parent = prompt ? nullptr : inputs_.parents()};
  linear_attention(call, inputs_.meta(), real(), stream());
}

void RankPass::remember(const host::PassInput& input) {
  if (plan_.shape.kind == PassKind::prefill) return;
  const std::int64_t first = inputs_.first();
  for (std::int64_t s = 0; s < inputs_.meta().sequences; ++s) {
    const auto whole = static_cast<std::size_t>(first + s);
    if (whole >= input.sequences.size()) continue;
    rank_.caches().remember(s, s * inputs_.meta().tokens_each,
                            static_cast<std::int64_t>(input.sequences[whole].nodes.first), inputs_.meta().tokens_each,
                            stream());
  }
}

}  // namespace specstep::cuda
