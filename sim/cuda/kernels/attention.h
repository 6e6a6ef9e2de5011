// Softmax attention over a paged cache, the rotation that fills it, the sparse index, and the linear recurrence.
#pragma once

#include "model/op.h"
#include "sim/cuda/kernels/pass_meta.h"
#include "sim/cuda/kernels/stored.h"

namespace specstep::cuda {

/// Cosines and sines: [positions][width / 2] pairs, angle position * 10000^(-2 i / width), computed in double.
void fill_rotations(float2* table, std::int64_t positions, std::int64_t width, cudaStream_t stream);

/// A layer's cache: [pages][page_tokens][values], a row as the host keeps it (gqa: keys of all heads, then values; mla:
/// latent, then rotated part). Its type is Real's own, or fp8 (e4m3, no scale).
struct Cache {
  void* rows = nullptr;
  DType dtype = DType::bf16;
  std::int64_t values = 0;
};

/// Rotates q and k of each token in place (pair (i, i + width / 2)) and appends the token's row to the cache.
struct RopeGqa {
  void* qkv = nullptr;  // [tokens][heads + 2 kv_heads][head_dim]
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0;
};
void rope_append(const RopeGqa& call, const Cache& cache, const PassMeta& meta, const float2* rotations, Real real,
                 cudaStream_t stream);
struct RopeMla {
  void* query = nullptr;   // [tokens][heads][nope_dim + rope_dim]: the last rope_dim are rotated
  void* latent = nullptr;  // [tokens][q_rank + kv_rank + rope_dim]: the last rope_dim are rotated
  std::int64_t heads = 0, nope_dim = 0, rope_dim = 0, q_rank = 0, kv_rank = 0;
};
void rope_append(const RopeMla& call, const Cache& cache, const PassMeta& meta, const float2* rotations, Real real,
                 cudaStream_t stream);

/// Attention of a step. All queries of a sequence share one read of its cache where op.queries_share_kv; the cache is
/// split over blocks (flash-decoding) and the parts are joined in a fixed order, so results depend neither on timing
/// nor on the other sequences. Throws Error for sizes without a kernel: value_dim above 512, or no multiple of 4.
/// On devices with clusters the kernel begins while the one before it on the stream ends: that one may write the query,
/// the selected places and the slots from base on, but neither the pass (PassMeta) nor committed rows of the cache.
struct AttentionCall {
  Attention op;                   // heads, score_dim, value_dim, limit
  const void* query = nullptr;    // gqa: qkv [tokens][stride]; mla: query_latent [tokens][heads][kv_rank]
  std::int64_t query_stride = 0;  // values from token to token; 0: heads * value_dim
  const void* rotated = nullptr;  // mla: query [tokens][heads][nope_dim + rope_dim]
  std::int64_t nope_dim = 0, rope_dim = 0;
  const std::int32_t* selected = nullptr;  // sparse: [tokens][limit] places among the slots a token sees, -1: none
  void* out = nullptr;                     // [tokens][heads][value_dim]
  float scale = 1;
  void* workspace = nullptr;
};
/// Front of every workspace of this room: counters, zeroed once by the owner; the kernels leave them zero. One
/// workspace as large as the largest need serves all calls of a stream.
inline constexpr std::int64_t counter_bytes = std::int64_t{65536} * 4;
/// Bytes for this operation on the current device. op.context + op.queries decides the number of parts; the kernels
/// read the true lengths from the pass, so longer and shorter contexts are right as well, only in other parts.
std::int64_t attention_workspace(const Attention& op);
void attend(const AttentionCall& call, const Cache& cache, const PassMeta& meta, Real real, cudaStream_t stream);

/// Index keys of the tokens into their cache, then for each token the op.top_k best places among the slots it sees, by
/// sum over heads of weight relu(q . k), ascending, -1 behind the last. Host: Rank::compute(SparseIndex).
struct IndexCall {
  SparseIndex op;
  const void* query = nullptr;  // [tokens][heads][dim]
  const void* key = nullptr;    // [tokens][dim + heads]: key, then the heads' weights
  std::int32_t* selected = nullptr;
  void* workspace = nullptr;  // begins with the counters of attention_workspace, untouched here
};
/// `slots`: of a sequence, pages_each * page_tokens; scores of a replay's longer contexts fit too.
std::int64_t index_workspace(const SparseIndex& op, std::int64_t slots);
void sparse_index(const IndexCall& call, const Cache& cache, const PassMeta& meta, Real real, cudaStream_t stream);

/// The gated delta rule, token by token in tree order. Host: Rank::recur. States are float
/// [value_heads][key_dim][value_dim]; `after` [tokens] keeps the state behind each uncommitted token. parent[token]:
/// the token of the pass it follows, -1: the committed state; null: a chain. Without `after` a chain is committed at
/// once: `state` becomes the state behind its last token (a prompt). Throws Error where a head's state has more than
/// 32768 values.
struct LinearCall {
  LinearAttention op;
  const void* qkvz = nullptr;  // [tokens][q keys | k keys | values | z]
  std::int64_t key_heads = 0;
  const void* gates = nullptr;  // [tokens][write | decay], value_heads each
  std::int64_t gates_stride = 0;
  void* out = nullptr;     // [tokens][value_heads * value_dim]
  float* state = nullptr;  // [sequences] committed
  float* after = nullptr;  // [tokens], may be null
  const std::int32_t* parent = nullptr;
};
void linear_attention(const LinearCall& call, const PassMeta& meta, Real real, cudaStream_t stream);

}  // namespace specstep::cuda
