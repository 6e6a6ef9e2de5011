// Layers, feed-forward widths and experts.

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "model/base/formatted.h"
#include "model/import/hf_parts.h"

namespace specstep {

namespace {

using Kind = ImportNote::Kind;
using Json = nlohmann::ordered_json;

/// "2 mamba, 1 attention" of a list or of NemotronH's letters.
std::string counted(const Json& pattern, std::int64_t& layers) {
  static const std::map<char, std::string> letters{{'M', "mamba"}, {'*', "attention"}, {'-', "mlp"}, {'E', "moe"}};
  std::map<std::string, int> counts;
  layers = 0;
  if (pattern.is_array())
    for (const Json& entry : pattern) {
      ++counts[entry.is_string() ? entry.get<std::string>() : entry.dump()];
      ++layers;
    }
  if (pattern.is_string())
    for (const char c : pattern.get_ref<const std::string&>()) {
      const auto found = letters.find(c);
      ++counts[found == letters.end() ? std::string(1, c) : found->second];
      ++layers;
    }
  std::string out;
  for (const auto& [kind, count] : counts) out += formatted("{}{} {}", out.empty() ? "" : ", ", count, kind);
  return out;
}

/// Lists of layers that are attention or feed-forward alone, or hold a state-space model: a stack has neither.
void refuse_hybrids(HfFields& f) {
  for (const char* key : {"layers_block_type", "hybrid_override_pattern", "hybrid_layer_pattern"}) {
    const Json* pattern = f.find({key});
    if (!pattern) continue;
    std::int64_t layers = 0;
    const std::string kinds = counted(*pattern, layers);
    f.fail(key, formatted("counts {} layers: {}", layers, kinds),
           "layers that each have one attention and one feed-forward part of equal widths");
  }
  for (const char* key : {"attn_layer_period", "compress_ratios", "cross_attention_layers", "num_kv_shared_layers"})
    if (const Json* value = f.find({key}); value && *value != 0 && !(value->is_array() && value->empty()))
      f.fail(key, "changes layers in a way that a stack cannot say", "equal layers, or the patterns of attention");
}

/// OpenELM gives widths as multiples of the hidden width, rounded to a divisor.
std::int64_t from_multipliers(HfFields& f, std::int64_t hidden, std::int64_t layers) {
  const std::vector<Json> all = f.list({"ffn_multipliers"});
  if (all.empty()) {
    f.fail("ffn_multipliers", "is no list with entries", "one for each layer");
    return 1;
  }
  if (static_cast<std::int64_t>(all.size()) != layers)
    f.fail("ffn_multipliers", formatted("has {} entries", all.size()), formatted("one for each of {} layers", layers));
  if (std::any_of(all.begin(), all.end(), [&](const Json& m) { return m != all.front(); }) ||
      !all.front().is_number()) {
    f.fail("ffn_multipliers", "differs by layer", "equal numbers: a stack has one feed-forward width");
    return 1;
  }
  const std::int64_t divisor = f.integer({"ffn_dim_divisor"}).value_or(1);
  const double width = all.front().get<double>() * static_cast<double>(hidden);
  const auto steps =
      static_cast<std::int64_t>((width + static_cast<double>(divisor) / 2) / static_cast<double>(divisor));
  std::int64_t rounded = std::max(divisor, steps * divisor);
  if (static_cast<double>(rounded) < 0.9 * width) rounded += divisor;
  return rounded;
}

/// Which layers have experts, and the field that said so last.
struct MoeLayers {
  std::vector<bool> moe;
  std::string decided_by;

  template <class Keep>
  void restrict(const char* key, Keep keep) {
    for (std::size_t i = 0; i < moe.size(); ++i)
      if (moe[i] && !keep(static_cast<std::int64_t>(i))) {
        moe[i] = false;
        decided_by = key;
      }
  }
};

void restrict_by_list(HfFields& f, MoeLayers& layers, const char* key) {
  const std::vector<Json> kinds = f.list({key});
  if (kinds.empty()) return;
  if (kinds.size() != layers.moe.size())
    return f.fail(key, formatted("has {} entries", kinds.size()),
                  formatted("one for each of {} layers", layers.moe.size()));
  layers.restrict(key, [&](std::int64_t i) {
    const Json& kind = kinds[static_cast<std::size_t>(i)];
    return kind != "dense" && kind != 0 && kind != false;
  });
}

MoeLayers moe_layers(HfFields& f, std::int64_t count) {
  MoeLayers layers{std::vector<bool>(static_cast<std::size_t>(count), true), "num_hidden_layers"};
  const std::int64_t leading = f.integer({"first_k_dense_replace"}, 0).value_or(0);
  layers.restrict("first_k_dense_replace", [&](std::int64_t i) { return i >= leading; });
  restrict_by_list(f, layers, "mlp_layer_types");
  if (const Json* freq = f.find({"moe_layer_freq"}); freq && freq->is_array()) {
    restrict_by_list(f, layers, "moe_layer_freq");
  } else if (freq) {
    const std::int64_t every = f.integer({"moe_layer_freq"}).value_or(1);
    layers.restrict("moe_layer_freq", [&](std::int64_t i) { return i % every == 0; });
  }
  for (const char* key : {"decoder_sparse_step", "interleave_moe_layer_step"}) {
    const std::int64_t every = f.integer({key}, 0).value_or(1);
    if (every > 0) layers.restrict(key, [&](std::int64_t i) { return (i + 1) % every == 0; });
  }
  const std::vector<Json> dense = f.list({"mlp_only_layers"});
  layers.restrict("mlp_only_layers",
                  [&](std::int64_t i) { return std::find(dense.begin(), dense.end(), Json(i)) == dense.end(); });
  return layers;
}

std::int64_t dense_width(HfFields& f, std::int64_t hidden, std::int64_t layers) {
  if (f.find({"ffn_multipliers"})) return from_multipliers(f, hidden, layers);
  if (const auto given = f.integer({"intermediate_size", "ffn_hidden_size", "n_inner"})) return *given;
  f.note(Kind::assumed, "intermediate_size", "missing", formatted("{}, 4 times the hidden width", 4 * hidden));
  return 4 * hidden;
}

void shared_experts(HfFields& f, MlpSpec& m) {
  m.shared_experts = f.integer({"n_shared_experts", "num_shared_experts"}, 0).value_or(0);
  const auto width = f.integer(
      {"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size"}, 0);
  if (width.value_or(0) == 0) return;
  if (m.shared_experts == 0) m.shared_experts = 1;
  if (*width != m.expert_intermediate) m.shared_intermediate = *width;
}

/// Families whose feed-forward part is two matrices; a stack counts three.
void refuse_without_gate(HfFields& f) {
  for (const char* key : {"hidden_act", "mlp_hidden_act", "activation_function"})
    if (const auto act = f.text({key}); act && (*act == "relu" || *act == "relu2" || *act == "gelu_new"))
      f.fail(key, formatted("is {}", *act), "a gated activation (silu): a stack has a gate matrix in each layer");
  for (const char* family : {"gpt2", "gptj", "gpt_neox", "gptneox", "opt", "bloom", "falcon", "mpt", "starcoder2"})
    if (f.family().starts_with(family))
      f.fail("model_type", formatted("is {}", f.family()), "a family whose feed-forward part has a gate");
}

}  // namespace

std::int64_t hf_layers(HfFields& f) {
  refuse_hybrids(f);
  const char* const what = "number of decoder layers";
  const HfFields::Names names{"num_hidden_layers", "num_layers", "n_layer", "n_layers", "num_transformer_layers"};
  if (f.find(names)) {
    const std::int64_t given = f.required(names, what);
    if (given <= 4096) return given;
    f.fail("num_hidden_layers", formatted("is {}", given), "at most 4096");
    return 1;
  }
  for (const char* key : {"layer_types", "layers_block_type"})
    if (const Json* list = f.find({key}); list && list->is_array() && !list->empty())
      return static_cast<std::int64_t>(list->size());
  if (!f.find({"hybrid_override_pattern"})) f.fail("num_hidden_layers", "missing", what);
  return 1;
}

MlpSpec hf_mlp(HfFields& f, std::int64_t hidden, std::int64_t layers) {
  refuse_without_gate(f);
  MlpSpec m;
  m.experts = f.integer({"n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"}, 0).value_or(0);
  const MoeLayers which = m.experts > 1 ? moe_layers(f, layers) : MoeLayers{};
  const auto first = std::find(which.moe.begin(), which.moe.end(), true);
  if (first == which.moe.end()) {
    m.experts = 0;
    m.intermediate = dense_width(f, hidden, layers);
    return m;
  }
  m.kind = MlpKind::moe;
  m.leading_dense_layers = first - which.moe.begin();
  if (std::find(first, which.moe.end(), false) != which.moe.end())
    f.fail(which.decided_by, "puts dense layers between those with experts", "dense layers first, then experts");
  m.top_k = f.required({"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "moe_top_k",
                        "num_selected_experts"},
                       "experts a token goes to");
  if (const auto width = f.integer({"moe_intermediate_size", "moe_ffn_hidden_size"})) {
    m.expert_intermediate = *width;
    if (m.leading_dense_layers > 0) m.intermediate = dense_width(f, hidden, layers);
    f.known({"intermediate_size"});
  } else {
    // Mixtral, gpt-oss and MiniMax-M2 have no dense layers, and name the width of an expert as others that of a layer.
    m.expert_intermediate = f.required({"intermediate_size"}, "width of an expert");
    if (m.leading_dense_layers > 0)
      f.fail("moe_intermediate_size", "missing", "dense layers and experts differ in width");
  }
  shared_experts(f, m);
  return m;
}

DType hf_dtype(HfFields& f) {
  const auto name = f.text({"torch_dtype", "dtype"});
  if (name == "bfloat16") return DType::bf16;
  if (name == "float16") return DType::f16;
  if (name == "float32") return DType::f32;
  if (name)
    f.note(Kind::assumed, "torch_dtype", formatted("is '{}'", *name), "bf16");
  else
    f.note(Kind::assumed, "torch_dtype", "missing", "bf16");
  return DType::bf16;
}

}  // namespace specstep
