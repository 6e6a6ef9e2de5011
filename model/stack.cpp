// Reading of stacks, and the faults that no single field shows.
#include "model/stack.h"

#include "model/base/formatted.h"

namespace specstep {

namespace {
constexpr Range width{.min = 1, .max = 1e7};
constexpr Range count{.min = 0, .max = 1e7};

void need(Checker& c, const char* key, std::int64_t value, const std::string& who) {
  if (value <= 0) c.fail(key, "missing", who + " needs it, at least 1");
}
void refuse(Checker& c, const char* key, std::int64_t value, const std::string& who) {
  if (value != 0) c.fail(key, "has no meaning here", who + " has no such number");
}
}  // namespace

std::int64_t AttentionSpec::cached_values() const {
  return kind == AttentionKind::mla ? kv_rank + rope_dim : 2 * kv_heads * head_dim;
}

void describe(Fields& f, AttentionSpec& a) {
  f.required("kind", a.kind, "gqa (heads share key/value heads; mha is kv_heads = heads) or mla (one cached latent)");
  f.required("heads", a.heads, "query heads", width);
  f.optional("kv_heads", a.kv_heads, "gqa: key/value heads", count);
  f.optional("head_dim", a.head_dim, "gqa: width of a head", count);
  f.optional("qk_norm", a.qk_norm, "gqa: RMSNorm on each head of q and k");
  f.optional("q_rank", a.q_rank, "mla: width of the query latent (q_lora_rank); 0 for none", count);
  f.optional("kv_rank", a.kv_rank, "mla: width of the cached latent (kv_lora_rank)", count);
  f.optional("nope_dim", a.nope_dim, "mla: width of a head without rotation (qk_nope_head_dim)", count);
  f.optional("rope_dim", a.rope_dim, "mla: rotated width (qk_rope_head_dim)", count);
  f.optional("value_dim", a.value_dim, "mla: width of a value head (v_head_dim)", count);
}

void check(const AttentionSpec& a, Checker& c) {
  if (a.kind == AttentionKind::gqa) {
    need(c, "kv_heads", a.kv_heads, "gqa");
    need(c, "head_dim", a.head_dim, "gqa");
    for (const auto& [key, value] : {std::pair{"q_rank", a.q_rank},
                                     {"kv_rank", a.kv_rank},
                                     {"nope_dim", a.nope_dim},
                                     {"rope_dim", a.rope_dim},
                                     {"value_dim", a.value_dim}})
      refuse(c, key, value, "gqa");
    if (a.kv_heads > 0 && a.heads % a.kv_heads != 0)
      c.fail("kv_heads", formatted("is {}", a.kv_heads), formatted("a divisor of heads ({})", a.heads));
  } else {
    need(c, "kv_rank", a.kv_rank, "mla");
    need(c, "nope_dim", a.nope_dim, "mla");
    need(c, "rope_dim", a.rope_dim, "mla");
    need(c, "value_dim", a.value_dim, "mla");
    refuse(c, "kv_heads", a.kv_heads, "mla");
    refuse(c, "head_dim", a.head_dim, "mla");
  }
}

void describe(Fields& f, SparseSpec& s) {
  f.required("top_k", s.top_k, "tokens each query attends to", width);
  f.required("index_heads", s.index_heads, "heads of the indexer", width);
  f.required("index_dim", s.index_dim, "width of an indexer key; one is cached per token", width);
  f.optional("index_dtype", s.index_dtype, "type of the cached indexer keys");
}

void describe(Fields& f, LinearSpec& l) {
  f.required("key_heads", l.key_heads, "key heads", width);
  f.required("key_dim", l.key_dim, "width of a key head", width);
  f.required("value_heads", l.value_heads, "value heads", width);
  f.required("value_dim", l.value_dim, "width of a value head", width);
  f.required("state_bytes", l.state_bytes, "bytes of state per sequence and layer, all heads together", {.min = 1});
}

void describe(Fields& f, LayerKind& l) {
  f.required("attention", l.attention, "what the attention of this kind of layer looks at");
  f.optional("window", l.window, "tokens seen, for attention window", count);
  f.optional("sparse", l.sparse, "the indexer, for attention sparse");
  f.optional("linear", l.linear, "projections and state, for attention linear");
}

void check(const LayerKind& l, Checker& c) {
  if (l.attention == Span::window) need(c, "window", l.window, "attention window");
  if (l.attention != Span::window) refuse(c, "window", l.window, "attention " + name_of(l.attention));
  if (l.attention == Span::sparse && !l.sparse) c.fail("sparse", "missing", "attention sparse needs it");
  if (l.attention == Span::linear && !l.linear) c.fail("linear", "missing", "attention linear needs it");
  if (l.attention != Span::sparse && l.sparse) c.fail("sparse", "has no meaning here", "attention sparse");
  if (l.attention != Span::linear && l.linear) c.fail("linear", "has no meaning here", "attention linear");
}

void describe(Fields& f, MlpSpec& m) {
  f.required("kind", m.kind, "dense, or moe (mixture of experts)");
  f.optional("intermediate", m.intermediate, "width of a dense layer; for moe, of the leading dense layers", count);
  f.optional("experts", m.experts, "moe: routed experts of a layer", count);
  f.optional("top_k", m.top_k, "moe: routed experts a token goes to", count);
  f.optional("expert_intermediate", m.expert_intermediate, "moe: width of a routed expert", count);
  f.optional("shared_experts", m.shared_experts, "moe: experts every token passes", count);
  f.optional("shared_intermediate", m.shared_intermediate, "moe: width of a shared expert; 0 = expert_intermediate",
             count);
  f.optional("leading_dense_layers", m.leading_dense_layers, "moe: the first layers that are dense", count);
  f.optional("chain_overlap", m.chain_overlap,
             "moe: share of a token's experts that the token before it in the same text used too",
             {.min = 0, .max = 1});
  f.optional("popularity", m.popularity,
             "moe: exponent of Zipf's law over how often the texts served together use each expert; 0: all alike");
}

void check(const MlpSpec& m, Checker& c) {
  check_range(c, "popularity", m.popularity, {.min = 0, .max = 4});
  const std::pair<const char*, std::int64_t> moe_only[]{{"experts", m.experts},
                                                        {"top_k", m.top_k},
                                                        {"expert_intermediate", m.expert_intermediate},
                                                        {"shared_experts", m.shared_experts},
                                                        {"shared_intermediate", m.shared_intermediate},
                                                        {"leading_dense_layers", m.leading_dense_layers}};
  if (m.kind == MlpKind::dense) {
    need(c, "intermediate", m.intermediate, "dense");
    for (const auto& [key, value] : moe_only) refuse(c, key, value, "dense");
    return;
  }
  need(c, "experts", m.experts, "moe");
  need(c, "top_k", m.top_k, "moe");
  need(c, "expert_intermediate", m.expert_intermediate, "moe");
  if (m.leading_dense_layers > 0) need(c, "intermediate", m.intermediate, "leading_dense_layers");
  if (m.shared_experts == 0 && m.shared_intermediate > 0)
    c.fail("shared_intermediate", "has no meaning here", "shared_experts is 0");
  if (m.top_k > m.experts) c.fail("top_k", formatted("is {}", m.top_k), formatted("at most experts ({})", m.experts));
}

void describe(Fields& f, WeightFormats& w) {
  f.optional("rest", w.rest, "every part that is not named");
  f.optional("attention", w.attention, "projections of the attention");
  f.optional("mlp", w.mlp, "dense layers");
  f.optional("experts", w.experts, "routed experts");
  f.optional("shared_experts", w.shared_experts, "shared experts");
  f.optional("router", w.router, "the router matrix");
  f.optional("embedding", w.embedding, "the token embedding");
  f.optional("head", w.head, "the output matrix (lm_head)");
}

void describe(Fields& f, OtherWeights& o) {
  f.required("name", o.name, "what it is");
  f.required("parameters", o.parameters, "how many", {.min = 1, .max = 1e14});
  f.optional("format", o.format, "how they are stored");
  f.optional("sharded", o.sharded, "split over tensor-parallel ranks, or held whole by each");
  f.optional("source", o.source, "where the number comes from");
}

void describe(Fields& f, VisionSpec& v) {
  f.required("layers", v.layers, "layers of the encoder", {.min = 1, .max = 4096});
  f.required("hidden", v.hidden, "width of the encoder", width);
  f.optional("source", v.source, "where the numbers come from");
}

void describe(Fields& f, StackSpec& s) {
  f.required("name", s.name, "name of the model");
  f.optional("source", s.source, "where the numbers come from");
  f.required("layers", s.layers, "decoder layers", {.min = 1, .max = 4096});
  f.required("hidden", s.hidden, "width of the residual stream", width);
  f.required("vocab", s.vocab, "tokens of the vocabulary", width);
  f.optional("tied_embeddings", s.tied_embeddings, "the output matrix is the embedding");
  f.required("attention", s.attention, "projections of softmax attention");
  f.optional("pattern", s.pattern, "kinds of layer, repeated over the stack");
  f.required("mlp", s.mlp, "feed-forward part");
  f.optional("weights", s.weights, "formats of stored weights");
  f.optional("kv", s.kv, "type of cached keys and values");
  f.optional("other_weights", s.other_weights, "weights a text pass does not read");
  f.optional("vision", s.vision, "the encoder of pictures, which engines leave room for");
}

void check(const StackSpec& s, Checker& c) {
  if (s.pattern.empty()) c.fail("pattern", "is empty", "at least one kind of layer");
  if (s.mlp.leading_dense_layers > s.layers)
    c.fail("mlp.leading_dense_layers", formatted("is {}", s.mlp.leading_dense_layers),
           formatted("at most layers ({})", s.layers));
}

}  // namespace specstep
