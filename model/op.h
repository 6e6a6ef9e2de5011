// The operations a pass is made of. A closed set: an executor that forgets one does not compile.
// All sizes are those of one rank. Shapes are [rows, columns]; rows are tokens.
#pragma once

#include <cstdint>
#include <variant>

#include "model/base/dtype.h"
#include "model/stack.h"

namespace specstep {

/// out[m, n] = in[m, k] weight[n, k]^T, `batches` times (one per head for the absorbed mla products).
struct Gemm {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batches = 1;
  WeightFormat format;
  bool operator==(const Gemm&) const = default;
};

/// The same product for the tokens of each expert. `experts_met` of the local experts have any token: expected
/// values of the rank that has the most of them.
struct GroupedGemm {
  std::int64_t tokens = 0, top_k = 0;
  std::int64_t experts = 0;  // local
  double experts_met = 0;
  double rows = 0;  // expected (token, expert) pairs that fall on this rank
  std::int64_t n = 0, k = 0;
  WeightFormat format;
  bool operator==(const GroupedGemm&) const = default;
};

/// Softmax attention over a cache. `limit` caps the tokens seen (window or top-k); 0 = none. With context_ranks > 1
/// this rank holds one of that many parts of each sequence's tokens, and puts out the log of the sum of its part beside
/// it. `padding` of the sequences have no cache.
struct Attention {
  AttentionKind kind = AttentionKind::gqa;
  std::int64_t sequences = 0, queries = 0, context = 0, limit = 0;
  std::int64_t heads = 0;          // local
  std::int64_t score_dim = 0;      // width of a score product (mla: kv_rank + rope_dim)
  std::int64_t value_dim = 0;      // width of a value product (mla: kv_rank)
  std::int64_t cached_values = 0;  // per token, local
  DType kv = DType::bf16;
  bool queries_share_kv = true;
  std::int64_t context_ranks = 1;
  std::int64_t shared = 0;  // cached tokens that all sequences have in common, stored once
  std::int64_t padding = 0;
  bool operator==(const Attention&) const = default;
};

/// Scales this rank's part of attention by the share of its sum in that of all `ranks` parts, so that the parts add up.
struct AttentionJoin {
  std::int64_t tokens = 0, heads = 0, value_dim = 0;  // heads: of the whole group
  std::int64_t ranks = 1;
  bool operator==(const AttentionJoin&) const = default;
};

/// The indexer of sparse attention: scores every cached index key, keeps the best top_k.
struct SparseIndex {
  std::int64_t sequences = 0, queries = 0, context = 0;
  std::int64_t heads = 0, dim = 0, top_k = 0;
  DType dtype = DType::fp8;
  bool queries_share_kv = true;
  std::int64_t padding = 0;  // of the sequences: without a cache
  bool operator==(const SparseIndex&) const = default;
};

/// Linear attention: reads and writes a fixed state for each sequence.
struct LinearAttention {
  std::int64_t sequences = 0, tokens_each = 0;
  std::int64_t value_heads = 0, key_dim = 0, value_dim = 0;  // local heads
  std::int64_t state_bytes = 0;                              // local, per sequence
  std::int64_t padding = 0;                                  // of the sequences: without a state
  bool operator==(const LinearAttention&) const = default;
};

/// Sum over ranks. in_layer tells the 2L of the layers from the one of the embedding.
struct AllReduce {
  std::int64_t elements = 0;
  DType dtype = DType::bf16;
  std::int64_t ranks = 1;
  bool in_layer = true;
  std::int64_t bytes() const { return static_cast<std::int64_t>(static_cast<double>(elements) * bytes_of(dtype)); }
  bool operator==(const AllReduce&) const = default;
};

/// Each rank contributes `elements`.
struct AllGather {
  std::int64_t elements = 0;
  DType dtype = DType::bf16;
  std::int64_t ranks = 1;
  std::int64_t bytes() const { return static_cast<std::int64_t>(static_cast<double>(elements) * bytes_of(dtype)); }
  bool operator==(const AllGather&) const = default;
};

/// Each rank holds `elements` and keeps 1/ranks of the sum.
struct ReduceScatter {
  std::int64_t elements = 0;
  DType dtype = DType::bf16;
  std::int64_t ranks = 1;
  std::int64_t bytes() const { return static_cast<std::int64_t>(static_cast<double>(elements) * bytes_of(dtype)); }
  bool operator==(const ReduceScatter&) const = default;
};

/// Each rank sends `elements` in all, evenly spread.
struct AllToAll {
  std::int64_t elements = 0;
  DType dtype = DType::bf16;
  std::int64_t ranks = 1;
  std::int64_t bytes() const { return static_cast<std::int64_t>(static_cast<double>(elements) * bytes_of(dtype)); }
  bool operator==(const AllToAll&) const = default;
};

/// RMSNorm over rows; with `residual` the input is first added to the residual stream, which is written back.
struct RmsNorm {
  std::int64_t rows = 0, width = 0;
  bool residual = false;
  bool operator==(const RmsNorm&) const = default;
};

/// An allreduce whose kernel goes on with the norm of the same rows: the rounded sum is added to the residual stream,
/// which is written back, and normed. The sum itself is not kept.
struct AllReduceNorm {
  AllReduce sum;
  RmsNorm norm;
  bool operator==(const AllReduceNorm&) const = default;
};

/// silu(gate) * up: reads [rows, 2 width], writes [rows, width].
struct Activation {
  std::int64_t rows = 0, width = 0;
  bool operator==(const Activation&) const = default;
};

/// Rotates q and k and appends the new rows to the cache.
struct Rope {
  std::int64_t tokens = 0, rotated_values = 0;  // rotated values of a token, q and k together
  double append_bytes = 0;                      // written to the cache for each token
  std::int64_t padding = 0;                     // of the tokens: not written to the cache
  bool operator==(const Rope&) const = default;
};

/// Scores to experts: top-k of each token, weights, and the sort of tokens by expert.
struct Router {
  std::int64_t tokens = 0, experts = 0, top_k = 0;
  bool operator==(const Router&) const = default;
};

/// Weighted sum of a token's expert outputs, plus the shared expert where there is one.
struct Combine {
  std::int64_t tokens = 0, top_k = 0, hidden = 0;
  bool shared = false;
  bool operator==(const Combine&) const = default;
};

/// Rows of the embedding table; a vocabulary-parallel rank writes zeros for tokens of other ranks.
struct Embed {
  std::int64_t tokens = 0, hidden = 0;
  WeightFormat format;
  bool operator==(const Embed&) const = default;
};

enum class SampleKind { sample, verify, draft };

/// Logits to tokens: sampling, the acceptance walk of a verify pass, or the draft's top candidates.
struct Sample {
  SampleKind kind = SampleKind::sample;
  std::int64_t rows = 0, vocab = 0, candidates = 1;
  bool operator==(const Sample&) const = default;
};

using Op =
    std::variant<Gemm, GroupedGemm, Attention, AttentionJoin, SparseIndex, LinearAttention, AllReduce, AllGather,
                 ReduceScatter, AllToAll, RmsNorm, AllReduceNorm, Activation, Rope, Router, Combine, Embed, Sample>;

/// The allreduce of an operation, alone or fused with what follows; nullptr for all others.
inline const AllReduce* allreduce_of(const Op& op) {
  if (const auto* fused = std::get_if<AllReduceNorm>(&op)) return &fused->sum;
  return std::get_if<AllReduce>(&op);
}

}  // namespace specstep
