// Heads, widths and spans of attention.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/base/formatted.h"
#include "model/import/hf_parts.h"

namespace specstep {

namespace {

using Kind = ImportNote::Kind;
using Json = nlohmann::ordered_json;

bool starts_with_any(const std::string& text, std::initializer_list<const char*> starts) {
  return std::any_of(starts.begin(), starts.end(), [&](const char* s) { return text.starts_with(s); });
}

/// Whether heads of q and k are normed. Most families fix it in their code, not in config.json.
bool has_qk_norm(HfFields& f) {
  if (const auto said = f.boolean({"use_qk_norm", "qk_norm", "qk_layernorm"})) return *said;
  const std::string& family = f.family();
  if (starts_with_any(family, {"qwen3", "gemma3", "gemma4", "olmo2", "olmoe", "openelm"})) return true;
  if (!starts_with_any(family, {"llama", "mistral", "mixtral", "qwen2", "deepseek", "kimi", "phi3", "gemma2", "gpt_oss",
                                "gptoss", "chatglm", "glm", "minimax", "cohere", "granite", "internlm", "exaone"}))
    f.note(Kind::assumed, "model_type", "not a family this importer knows",
           "no norm of q and k heads (qk_norm: false)");
  return false;
}

AttentionSpec latent_attention(HfFields& f) {
  AttentionSpec a{.kind = AttentionKind::mla};
  a.heads = f.required({"num_attention_heads"}, "query heads");
  a.q_rank = f.integer({"q_lora_rank"}, 0).value_or(0);
  a.kv_rank = f.required({"kv_lora_rank"}, "width of the cached latent");
  a.nope_dim = f.required({"qk_nope_head_dim"}, "mla needs it");
  a.rope_dim = f.required({"qk_rope_head_dim"}, "mla needs it");
  a.value_dim = f.required({"v_head_dim"}, "mla needs it");
  f.known({"num_key_value_heads", "head_dim", "qk_head_dim"});  // of mla these follow from the others
  return a;
}

std::int64_t kv_heads(HfFields& f, std::int64_t heads) {
  if (const auto shared = f.boolean({"multi_query_attention"}); shared && !*shared) {
    f.known({"multi_query_group_num"});
    return heads;
  }
  if (const auto given = f.integer({"num_key_value_heads", "multi_query_group_num", "num_kv_heads", "n_head_kv"}))
    return *given;
  if (const auto shared = f.boolean({"multi_query"}); shared && *shared) return 1;
  f.note(Kind::assumed, "num_key_value_heads", "missing", formatted("as many as query heads ({})", heads));
  return heads;
}

std::int64_t head_dim(HfFields& f, std::int64_t hidden, std::int64_t heads) {
  const auto given = f.integer({"head_dim", "kv_channels", "attention_head_dim", "head_size"});
  const auto global = f.integer({"global_head_dim"});
  if (global && given && *global != *given)
    f.fail("global_head_dim", formatted("is {} where head_dim is {}", *global, *given),
           "one width of head for all layers");
  if (given) return *given;
  if (hidden % heads != 0)
    f.fail("head_dim", "missing", formatted("it does not follow from hidden {} and {} heads", hidden, heads));
  return hidden / heads;
}

/// The output gate of Qwen3-Next and Qwen3.5 doubles q_proj; a stack has no place for it.
void note_output_gate(HfFields& f, const AttentionSpec& a, std::int64_t hidden) {
  const auto said = f.boolean({"attn_output_gate"});
  if (said.value_or(starts_with_any(f.family(), {"qwen3_next", "qwen3_5"})))
    f.note(Kind::approximate, "attn_output_gate", "a gate on the attention output is not part of a stack",
           formatted("each full layer lacks {:.0f} weights",
                     static_cast<double>(a.heads * a.head_dim) * static_cast<double>(hidden)));
}

}  // namespace

AttentionSpec hf_attention(HfFields& f, std::int64_t hidden) {
  if (f.find({"kv_lora_rank"})) return latent_attention(f);
  AttentionSpec a{.kind = AttentionKind::gqa};
  a.heads = f.required({"num_attention_heads", "n_head", "num_heads", "num_query_heads"}, "query heads");
  a.kv_heads = kv_heads(f, a.heads);
  a.head_dim = head_dim(f, hidden, a.heads);
  if (a.heads % a.kv_heads != 0)
    f.fail("num_key_value_heads", formatted("is {}", a.kv_heads), formatted("a divisor of {} heads", a.heads));
  a.qk_norm = has_qk_norm(f);
  note_output_gate(f, a, hidden);
  return a;
}

namespace {

/// A field of linear attention; where config.json leaves it out, the default of transformers' Qwen3NextConfig.
std::int64_t linear_field(HfFields& f, const char* name, std::int64_t usual) {
  if (const auto given = f.integer({name})) {
    if (*given <= 65536) return *given;
    f.fail(name, formatted("is {}", *given), "at most 65536");
    return 1;
  }
  f.note(Kind::assumed, name, "missing", formatted("{}, the default of Qwen3NextConfig", usual));
  return usual;
}

LayerKind linear_layer(HfFields& f) {
  LinearSpec l;
  l.key_heads = linear_field(f, "linear_num_key_heads", 16);
  l.key_dim = linear_field(f, "linear_key_head_dim", 128);
  l.value_heads = linear_field(f, "linear_num_value_heads", 32);
  l.value_dim = linear_field(f, "linear_value_head_dim", 128);
  const std::int64_t taps = linear_field(f, "linear_conv_kernel_dim", 4);
  // Engines keep the recurrent state in fp32 (mamba_ssm_dtype) and the last taps - 1 inputs of the convolution in bf16.
  const bool half = f.text({"mamba_ssm_dtype"}).value_or("float32") != "float32";
  l.state_bytes = l.value_heads * l.key_dim * l.value_dim * (half ? 2 : 4) +
                  (2 * l.key_heads * l.key_dim + l.value_heads * l.value_dim) * (taps - 1) * 2;
  return {.attention = Span::linear, .linear = l};
}

/// Layers that look at everything, or at what the indexer of sparse attention picks.
LayerKind full_layer(HfFields& f) {
  if (!f.find({"index_topk"})) {
    if (f.family().starts_with("glm_moe_dsa") || f.family().starts_with("deepseek_v32"))
      f.fail("index_topk", "missing", "this family has sparse attention: index_topk, index_n_heads, index_head_dim");
    return {};
  }
  SparseSpec s;
  s.top_k = f.required({"index_topk"}, "tokens each query attends to");
  s.index_heads = f.required({"index_n_heads"}, "heads of the indexer");
  s.index_dim = f.required({"index_head_dim"}, "width of an indexer key");
  const bool some = f.integer({"index_topk_freq"}).value_or(1) != 1 || f.find({"index_topk_pattern"});
  if (some || f.find({"indexer_types"}))
    f.note(Kind::approximate, "index_topk_freq", "some layers share the choice of another one",
           "an indexer in every layer");
  f.known({"index_skip_topk_offset", "index_share_for_mtp_iteration"});
  return {.attention = Span::sparse, .sparse = s};
}

LayerKind window_layer(HfFields& f) {
  LayerKind kind{.attention = Span::window};
  kind.window = f.required({"sliding_window", "attention_chunk_size"}, "tokens that a sliding layer sees");
  return kind;
}

/// The shortest list that gives the same layers when it repeats.
std::vector<char> shortest(const std::vector<char>& layers) {
  for (std::size_t period = 1; period < layers.size(); ++period) {
    bool repeats = true;
    for (std::size_t i = period; repeats && i < layers.size(); ++i) repeats = layers[i] == layers[i - period];
    if (repeats) return {layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(period)};
  }
  return layers;
}

constexpr char full = 'f', window = 'w', linear = 'l';

std::vector<char> from_layer_types(HfFields& f, const std::vector<Json>& types, std::int64_t layers) {
  std::vector<char> out;
  if (static_cast<std::int64_t>(types.size()) != layers)
    f.fail("layer_types", formatted("has {} entries", types.size()), formatted("one for each of {} layers", layers));
  for (const Json& type : types) {
    const std::string name = type.is_string() ? type.get<std::string>() : type.dump();
    if (name == "full_attention" || name == "attention" || name == "deepseek_sparse_attention")
      out.push_back(full);
    else if (name == "sliding_attention" || name == "sliding_window" || name == "chunked_attention")
      out.push_back(window);
    else if (name == "linear_attention")
      out.push_back(linear);
    else {
      f.fail("layer_types", formatted("has '{}'", name),
             "full_attention, sliding_attention or linear_attention: a stack knows no other layers");
      return {full};
    }
  }
  return out;
}

/// sliding_window_pattern: a number n (each nth layer is full), or letters L (sliding) and G (full) that repeat.
std::vector<char> from_sliding_pattern(HfFields& f, const Json& pattern, std::int64_t layers) {
  std::vector<char> out;
  if (pattern.is_string()) {
    const auto& letters = pattern.get_ref<const std::string&>();
    if (letters.empty() || letters.find_first_not_of("LG") != std::string::npos)
      f.fail("sliding_window_pattern", formatted("is '{}'", letters), "letters L and G, or a number");
    for (std::int64_t i = 0; i < layers && !letters.empty(); ++i)
      out.push_back(letters[static_cast<std::size_t>(i) % letters.size()] == 'L' ? window : full);
    return out;
  }
  const std::int64_t every = f.required({"sliding_window_pattern"}, "a number of layers");
  for (std::int64_t i = 0; i < layers; ++i) out.push_back((i + 1) % every == 0 ? full : window);
  return out;
}

/// A window for all layers, or from a layer on (Qwen2), unless it is switched off.
std::vector<char> from_window(HfFields& f, std::int64_t layers) {
  const bool on = f.boolean({"use_sliding_window"}).value_or(true);
  const Json* width = f.find({"sliding_window"});
  if (!on || !width) return std::vector<char>(static_cast<std::size_t>(layers), full);
  for (const auto& [family, every] : {std::pair{"gemma2", 2}, {"gemma3", 6}, {"gpt_oss", 2}, {"cohere2", 4}}) {
    if (!f.family().starts_with(family)) continue;
    f.note(Kind::assumed, "layer_types", "missing", formatted("each {}th layer is full, as in this family", every));
    std::vector<char> out;
    for (std::int64_t i = 0; i < layers; ++i) out.push_back((i + 1) % every == 0 ? full : window);
    return out;
  }
  const std::int64_t first = f.boolean({"use_sliding_window"}) ? f.integer({"max_window_layers"}, 0).value_or(0) : 0;
  std::vector<char> out;
  for (std::int64_t i = 0; i < layers; ++i) out.push_back(i >= first ? window : full);
  return out;
}

std::vector<char> spans(HfFields& f, std::int64_t layers) {
  const std::vector<Json> types = f.list({"layer_types"});
  const Json* sliding = f.find({"sliding_window_pattern"});
  const auto interval = f.integer({"full_attention_interval"});
  for (const Json& kind : f.list({"attn_type_list"}))
    if (kind != 1) {
      f.fail("attn_type_list", "has layers of lightning attention", "1 for every layer");
      break;
    }
  if (!types.empty()) return from_layer_types(f, types, layers);
  if (interval) {
    std::vector<char> out;
    for (std::int64_t i = 0; i < layers; ++i) out.push_back((i + 1) % *interval == 0 ? full : linear);
    return out;
  }
  if (sliding) return from_sliding_pattern(f, *sliding, layers);
  if (f.find({"attention_chunk_size"}))
    f.fail("attention_chunk_size", "without layer_types", "layer_types that say which layers are chunked");
  return from_window(f, layers);
}

}  // namespace

std::vector<LayerKind> hf_pattern(HfFields& f, std::int64_t layers) {
  const std::vector<char> pattern = shortest(spans(f, layers));
  const auto has = [&](char kind) { return std::find(pattern.begin(), pattern.end(), kind) != pattern.end(); };
  // Each kind is read once: what it lacks is then told once.
  const LayerKind whole = has(full) ? full_layer(f) : LayerKind{};
  const LayerKind sliding = has(window) ? window_layer(f) : LayerKind{};
  const LayerKind state = has(linear) ? linear_layer(f) : LayerKind{};
  if (!has(window)) f.known({"sliding_window"});
  std::vector<LayerKind> out;
  out.reserve(pattern.size());
  for (const char kind : pattern) out.push_back(kind == full ? whole : kind == window ? sliding : state);
  return out;
}

}  // namespace specstep
