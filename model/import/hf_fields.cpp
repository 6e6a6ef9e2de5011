// Looking fields up: nesting, aliases, conflicts, and what was left over.
#include "model/import/hf_fields.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/base/formatted.h"

namespace specstep {

namespace {

constexpr std::array nested{"thinker_config", "text_config", "llm_config", "language_config"};

/// Keys that say nothing about shapes, formats or bytes.
constexpr std::array harmless{"architectures",
                              "model_type",
                              "auto_map",
                              "transformers_version",
                              "use_cache",
                              "initializer_range",
                              "hidden_act",
                              "hidden_activation",
                              "max_position_embeddings",
                              "seq_length",
                              "model_max_length",
                              "rms_norm_eps",
                              "norm_eps",
                              "layer_norm_eps",
                              "layernorm_epsilon",
                              "layer_norm_epsilon",
                              "attention_dropout",
                              "hidden_dropout",
                              "attention_bias",
                              "mlp_bias",
                              "add_bias_linear",
                              "add_qkv_bias",
                              "rmsnorm",
                              "post_layer_norm",
                              "apply_query_key_layer_scaling",
                              "apply_residual_connection_post_layernorm",
                              "attention_softmax_in_fp32",
                              "fp32_residual_connection",
                              "bias_dropout_fusion",
                              "original_rope",
                              "pre_seq_len",
                              "prefix_projection",
                              "interleaved_qkv",
                              "pretraining_tp",
                              "ep_size",
                              "aux_loss_alpha",
                              "seq_aux",
                              "n_group",
                              "topk_group",
                              "topk_method",
                              "scoring_func",
                              "norm_topk_prob",
                              "routed_scaling_factor",
                              "router_aux_loss_coef",
                              "output_router_logits",
                              "router_jitter_noise",
                              "use_routing_bias",
                              "partial_rotary_factor",
                              "rotary_dim",
                              "rotary_pct",
                              "mrope_section",
                              "max_window_layers",
                              "use_sliding_window",
                              "tie_encoder_decoder",
                              "swiglu_limit",
                              "initial_context_length",
                              "attn_implementation",
                              "_attn_implementation",
                              "is_decoder",
                              "is_encoder_decoder",
                              "add_cross_attention",
                              "cross_attention_hidden_size",
                              "id2label",
                              "label2id",
                              "task_specific_params",
                              "problem_type",
                              "pruned_heads",
                              "return_dict",
                              "return_dict_in_generate",
                              "remove_invalid_values",
                              "torchscript",
                              "tf_legacy_loss",
                              "use_bfloat16",
                              "do_sample",
                              "early_stopping",
                              "max_length",
                              "min_length",
                              "num_beams",
                              "num_beam_groups",
                              "num_return_sequences",
                              "output_attentions",
                              "output_hidden_states",
                              "output_scores",
                              "temperature",
                              "top_p",
                              "typical_p",
                              "length_penalty",
                              "repetition_penalty",
                              "diversity_penalty",
                              "no_repeat_ngram_size",
                              "encoder_no_repeat_ngram_size",
                              "chunk_size_feed_forward",
                              "exponential_decay_length_penalty",
                              "finetuning_task",
                              "prefix",
                              "bad_words_ids",
                              "begin_suppress_tokens",
                              "suppress_tokens",
                              "tokenizer_class",
                              "_name_or_path",
                              "top_k",
                              "indexer_rope_interleave",
                              "rope_interleave",
                              "dsa_indexer_use_hadamard",
                              "mtp_use_dedicated_embeddings",
                              "mtp_loss_weight",
                              "ignore_index",
                              "routing_method",
                              "scale_emb",
                              "classifier_dropout",
                              "head_dtype",
                              "use_unified_vision_chunk",
                              "video_placeholder",
                              "mamba_ssm_dtype",
                              "attn_qkv_bias",
                              "qkv_bias",
                              "use_qkv_bias",
                              "moe_router_enable_expert_bias",
                              "n_positions",
                              "max_seq_len",
                              "qk_norm_type"};

bool is_harmless(const std::string& key) {
  for (const char* suffix : {"_token_id", "_token_ids", "_token_index", "_dropout", "_token"})
    if (key.ends_with(suffix)) return true;
  if (key.starts_with("rope_") || key.starts_with("mlp_dropout")) return true;
  return std::find(harmless.begin(), harmless.end(), key) != harmless.end();
}

std::string lower(std::string s) {
  for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return s;
}

std::string shown(const nlohmann::ordered_json& value) {
  std::string text = value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  return text.size() > 60 ? text.substr(0, 57) + "..." : text;
}

}  // namespace

std::string_view name_of(ImportNote::Kind kind) {
  switch (kind) {
    case ImportNote::Kind::conflict:
      return "conflict";
    case ImportNote::Kind::assumed:
      return "assumed";
    case ImportNote::Kind::approximate:
      return "approximate";
    case ImportNote::Kind::ignored:
      return "ignored";
  }
  return "";
}

HfFields::HfFields(const JsonFile& file) : file_(file), levels_{{file.root.get(), ""}} {
  for (bool deeper = true; deeper;) {
    deeper = false;
    const Level here = levels_.back();
    for (const char* name : nested) {
      const auto found = here.values->find(name);
      if (found == here.values->end() || !found->is_object()) continue;
      seen_.insert(name);
      levels_.push_back({&*found, here.path + (here.path.empty() ? "" : ".") + name});
      deeper = true;
      break;
    }
  }
  for (const Level& level : levels_) {
    const auto list = level.values->find("architectures");
    if (list != level.values->end() && list->is_array() && !list->empty() && list->front().is_string() &&
        architecture_.empty())
      architecture_ = list->front().get<std::string>();
    const auto type = level.values->find("model_type");
    if (type != level.values->end() && type->is_string()) family_ = lower(type->get<std::string>());
  }
  if (family_.empty()) family_ = lower(architecture_);
}

HfFields::Found HfFields::find_placed(Names names) {
  Found used;
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level)
    for (const char* name : names) {
      seen_.insert(name);
      const auto found = level->values->find(name);
      if (found == level->values->end() || found->is_null()) continue;
      const std::string path = level->path + (level->path.empty() ? "" : ".") + name;
      if (!used.value) {
        used = {&*found, path};
      } else if (*used.value != *found && conflicts_.insert(path).second) {
        note(ImportNote::Kind::conflict, path,
             formatted("is {}, but {} is {}", shown(*found), used.path, shown(*used.value)),
             "the innermost value is used, and of two names the first");
      }
    }
  return used;
}

const HfFields::Json* HfFields::find(Names names) { return find_placed(names).value; }

std::optional<std::int64_t> HfFields::whole(const Json& value, const std::string& key, std::int64_t min) {
  const double as_double = value.is_number() ? value.get<double>() : 0;
  if (!value.is_number() || as_double != std::floor(as_double) || as_double < static_cast<double>(min)) {
    fail(key, formatted("is {}", shown(value)), formatted("a whole number of at least {}", min));
    return std::nullopt;
  }
  if (as_double > 1e7) {
    fail(key, formatted("is {}", shown(value)), "at most 10000000");
    return std::nullopt;
  }
  return static_cast<std::int64_t>(as_double);
}

std::optional<std::int64_t> HfFields::uniform(const Json& list, const std::string& key, std::int64_t min) {
  if (static_cast<std::int64_t>(list.size()) != layers_) {
    fail(key, formatted("has {} entries", list.size()), formatted("one for each of {} layers", layers_));
    return std::nullopt;
  }
  for (const Json& entry : list)
    if (entry != list.front()) {
      fail(key, formatted("differs by layer: {}", shown(list)),
           "equal layers: a stack has one attention and one feed-forward part for all of them");
      return std::nullopt;
    }
  return whole(list.front(), key, min);
}

std::optional<std::int64_t> HfFields::integer(Names names, std::int64_t min) {
  const Found found = find_placed(names);
  if (!found.value) return std::nullopt;
  if (found.value->is_array()) return uniform(*found.value, found.path, min);
  return whole(*found.value, found.path, min);
}

std::int64_t HfFields::required(Names names, const char* what) {
  const std::size_t faults = issues_.size();
  const std::optional<std::int64_t> value = integer(names);
  if (!value && issues_.size() == faults) fail(*names.begin(), "missing", what);
  return value.value_or(1);
}

std::optional<bool> HfFields::boolean(Names names) {
  const Found found = find_placed(names);
  if (!found.value) return std::nullopt;
  if (!found.value->is_boolean()) {
    fail(found.path, formatted("is {}", shown(*found.value)), "true or false");
    return std::nullopt;
  }
  return found.value->get<bool>();
}

std::optional<std::string> HfFields::text(Names names) {
  const Found found = find_placed(names);
  if (!found.value) return std::nullopt;
  if (!found.value->is_string()) {
    fail(found.path, formatted("is {}", shown(*found.value)), "text");
    return std::nullopt;
  }
  return found.value->get<std::string>();
}

std::vector<HfFields::Json> HfFields::list(Names names) {
  const Found found = find_placed(names);
  if (!found.value) return {};
  if (!found.value->is_array()) {
    fail(found.path, formatted("is {}", shown(*found.value)), "a list");
    return {};
  }
  return {found.value->begin(), found.value->end()};
}

std::string HfFields::path_of(const std::string& key) const {
  if (file_.places.contains(key)) return key;
  for (auto level = levels_.rbegin(); level != levels_.rend(); ++level)
    if (level->values->contains(key.substr(0, key.find('.'))))
      return level->path + (level->path.empty() ? "" : ".") + key;
  return key;
}

void HfFields::note(ImportNote::Kind kind, const std::string& key, std::string what, std::string instead) {
  const std::string path = path_of(key);
  notes_.push_back({kind, {file_.at(path), path, std::move(what), std::move(instead)}});
}

void HfFields::fail(const std::string& key, std::string what, std::string allowed) {
  const std::string path = path_of(key);
  issues_.push_back({file_.at(path), path, std::move(what), std::move(allowed)});
}

void HfFields::note_leftovers() {
  std::string unknown, first;
  for (const Level& level : levels_)
    for (const auto& [key, value] : level.values->items()) {
      if (seen_.contains(key) || value.is_null() || is_harmless(key)) continue;
      if (key.ends_with("_config") && value.is_object()) {
        note(ImportNote::Kind::ignored, key, "not read", "its weights can be given as other_weights of the stack");
        continue;
      }
      if (first.empty()) first = key;
      unknown += (unknown.empty() ? "" : ", ") + key;
    }
  if (!unknown.empty()) note(ImportNote::Kind::ignored, first, "not known to this importer: " + unknown);
}

}  // namespace specstep
