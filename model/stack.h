// The transformer as numbers: what a config.json says, nothing about batches, ranks or devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/describe.h"
#include "model/base/dtype.h"
#include "model/base/quantity.h"

namespace specstep {

enum class AttentionKind { gqa, mla };
enum class MlpKind { dense, moe };
/// What a layer's attention looks at: everything, the last W tokens, the best K tokens, or a fixed state.
enum class Span { full, window, sparse, linear };

template <>
struct EnumNames<AttentionKind> {
  static std::vector<std::string> names() { return {"gqa", "mla"}; }
};
template <>
struct EnumNames<MlpKind> {
  static std::vector<std::string> names() { return {"dense", "moe"}; }
};
template <>
struct EnumNames<Span> {
  static std::vector<std::string> names() { return {"full", "window", "sparse", "linear"}; }
};

/// Projections of softmax attention. gqa: heads, kv_heads, head_dim. mla: heads and the latent widths.
struct AttentionSpec {
  AttentionKind kind = AttentionKind::gqa;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;   // gqa
  std::int64_t head_dim = 0;   // gqa
  bool qk_norm = false;        // gqa: RMSNorm on each head of q and k
  std::int64_t q_rank = 0;     // mla: width of the query latent; 0 = q comes straight from hidden
  std::int64_t kv_rank = 0;    // mla: width of the cached latent
  std::int64_t nope_dim = 0;   // mla: per-head width without rotation
  std::int64_t rope_dim = 0;   // mla: rotated width, shared by the heads and cached
  std::int64_t value_dim = 0;  // mla: per-head width of v

  /// Values cached per token and layer, before sharding: mla kv_rank + rope_dim; gqa 2 kv_heads head_dim.
  std::int64_t cached_values() const;
};

/// The indexer of sparse attention: picks `top_k` tokens for each query from a small cache of its own.
struct SparseSpec {
  std::int64_t top_k = 0;
  std::int64_t index_heads = 0;
  std::int64_t index_dim = 0;
  DType index_dtype = DType::fp8;
};

/// Linear attention: projections, and a state of fixed size per sequence instead of a cache.
struct LinearSpec {
  std::int64_t key_heads = 0;
  std::int64_t key_dim = 0;
  std::int64_t value_heads = 0;
  std::int64_t value_dim = 0;
  std::int64_t state_bytes = 0;  // per sequence and layer, all heads
};

/// One kind of layer; `pattern` repeats a list of them over the stack.
struct LayerKind {
  Span attention = Span::full;
  std::int64_t window = 0;  // tokens, for span window
  std::optional<SparseSpec> sparse;
  std::optional<LinearSpec> linear;
};

template <>
struct Shorthand<LayerKind> {
  static constexpr std::string_view scalar_key = "attention";
  static constexpr std::string_view list_key = "";
};

/// Feed-forward part. Gated: gate and up are one matrix of twice the width.
struct MlpSpec {
  MlpKind kind = MlpKind::dense;
  std::int64_t intermediate = 0;          // width of a dense layer; for moe, of the leading dense layers
  std::int64_t experts = 0;               // moe
  std::int64_t top_k = 0;                 // moe: experts a token goes to
  std::int64_t expert_intermediate = 0;   // moe
  std::int64_t shared_experts = 0;        // moe: every token passes them
  std::int64_t shared_intermediate = 0;   // moe: width of one shared expert; 0 = expert_intermediate
  std::int64_t leading_dense_layers = 0;  // moe: the first layers are dense
  /// Share of a token's experts that the token before it in the same text also used. Only tokens of one chain overlap.
  double chain_overlap = 0;
  /// s of Zipf's law over how often the texts served together use each expert; 0: all alike. See model/experts.h.
  Quantity popularity;
};

/// Formats of stored weights, by part. Anything not named is `rest`.
struct WeightFormats {
  WeightFormat rest;
  std::optional<WeightFormat> attention, mlp, experts, shared_experts, router, embedding, head;

  /// The format of a part: its own, or that of the rest.
  const WeightFormat& of(const std::optional<WeightFormat>& part) const { return part ? *part : rest; }
};

/// Weights that a text pass does not read (a vision tower) but that take memory on each GPU.
struct OtherWeights {
  std::string name;
  double parameters = 0;
  WeightFormat format;
  bool sharded = false;  // over tensor-parallel ranks
  std::string source;
};

/// The encoder of pictures: what SGLang's memory rule asks of it. Its weights stand in other_weights.
struct VisionSpec {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::string source;
};

struct StackSpec {
  std::string name;
  std::string source;
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;
  bool tied_embeddings = false;
  AttentionSpec attention;
  std::vector<LayerKind> pattern{LayerKind{}};
  MlpSpec mlp;
  WeightFormats weights;
  DType kv = DType::bf16;
  std::vector<OtherWeights> other_weights;
  std::optional<VisionSpec> vision;

  /// The kind of layer i: pattern[i mod its length].
  const LayerKind& layer(std::int64_t i) const { return pattern[static_cast<std::size_t>(i) % pattern.size()]; }
  /// True when layer i has experts.
  bool is_moe(std::int64_t i) const { return mlp.kind == MlpKind::moe && i >= mlp.leading_dense_layers; }
};

void describe(Fields& f, AttentionSpec& a);
void check(const AttentionSpec& a, Checker& c);
void describe(Fields& f, SparseSpec& s);
void describe(Fields& f, LinearSpec& l);
void describe(Fields& f, LayerKind& l);
void check(const LayerKind& l, Checker& c);
void describe(Fields& f, MlpSpec& m);
void check(const MlpSpec& m, Checker& c);
void describe(Fields& f, WeightFormats& w);
void describe(Fields& f, OtherWeights& o);
void describe(Fields& f, VisionSpec& v);
void describe(Fields& f, StackSpec& s);
void check(const StackSpec& s, Checker& c);

}  // namespace specstep
