// The whole of a config.json.
#include "model/import/hf_config.h"

#include <nlohmann/json.hpp>

#include "model/base/config_io.h"
#include "model/base/formatted.h"
#include "model/import/hf_parts.h"

namespace specstep {

namespace {

using Kind = ImportNote::Kind;

/// Of the file, or of its folder where the file is only called config; nothing for text from a pipe.
std::string name_of_file(const std::string& file) {
  const std::filesystem::path path = file;
  if (path.has_parent_path() && folder_of(path).empty()) return "";
  const std::filesystem::path whole = one_spelling(path);
  return (whole.stem() == "config" ? whole.parent_path().filename() : whole.stem()).string();
}

std::string name_for(HfFields& f, const std::string& file, const std::string& name) {
  if (!name.empty()) return name;
  std::string own = f.text({"_name_or_path"}).value_or("");
  if (const std::size_t slash = own.rfind('/'); slash != std::string::npos) own = own.substr(slash + 1);
  if (own.empty()) own = name_of_file(file);
  if (!own.empty()) return own;
  return f.architecture().empty() ? "imported" : f.architecture();
}

bool is_eagle3(HfFields& f) {
  return f.architecture().find("Eagle3") != std::string::npos || f.find({"eagle_config"}) ||
         f.find({"draft_vocab_size"});
}

/// Draft models that propose whole blocks and are no chain of passes.
void refuse_block_drafts(HfFields& f) {
  for (const char* name : {"DSpark", "DFlash"})
    if (f.architecture().find(name) != std::string::npos)
      f.fail("architectures", formatted("has {}, a draft that proposes a block at once", f.architecture()),
             "a target model, or a head of EAGLE-3");
}

/// The checks that reading a file of the result would make; their keys are those of the result.
template <class Spec>
void hold_against_rules(const Spec& spec, const std::string& file) {
  const std::string yaml = to_yaml(dump_config(spec));
  try {
    read_config<Spec>(yaml::parse(yaml, file));
  } catch (const InputError& e) {
    Issues issues;
    for (const Issue& issue : e.issues()) issues.push_back({{file}, issue.key, issue.what, issue.allowed});
    throw InputError(issues);
  }
}

StackSpec stack_from(HfFields& f, const std::string& file, const std::string& name) {
  StackSpec s;
  s.name = name_for(f, file, name);
  s.source = "imported from " + file;
  s.layers = hf_layers(f);
  f.set_layers(s.layers);
  s.hidden = f.required({"hidden_size", "n_embd", "d_model", "model_dim"}, "width of the residual stream");
  s.vocab = f.required({"vocab_size", "padded_vocab_size"}, "size of the vocabulary");
  s.tied_embeddings = f.boolean({"tie_word_embeddings"}).value_or(false);
  s.attention = hf_attention(f, s.hidden);
  s.pattern = hf_pattern(f, s.layers);
  s.mlp = hf_mlp(f, s.hidden, s.layers);
  s.weights.rest.dtype = s.kv = hf_dtype(f);
  f.throw_if_faulty();  // the formats of parts are asked of the layers found so far
  const HfFormats formats = hf_formats(f, s);
  s.weights = formats.weights;
  s.kv = formats.kv.value_or(s.kv);
  if (s.mlp.kind == MlpKind::moe)
    f.note(Kind::assumed, "mlp.chain_overlap", "not in a config.json", "adjacent tokens share no experts (0)");
  for (const char* key : {"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"})
    if (const auto layers = f.integer({key}, 0); layers.value_or(0) > 0)
      f.note(Kind::ignored, key, formatted("is {}: these layers draft, they are not part of the stack", *layers),
             "a draft of method nextn describes them");
  f.known({"use_mtp", "mtp_transformer_layers"});
  return s;
}

DraftSpec draft_from(HfFields& f, const std::string& file, const std::string& name) {
  DraftSpec d;
  d.name = name_for(f, file, name);
  d.source = "imported from " + file;
  d.method = DraftMethod::eagle3;
  d.layers = hf_layers(f);
  f.set_layers(d.layers);
  d.hidden = f.required({"hidden_size"}, "width of the draft's residual stream");
  d.target_hidden = f.integer({"target_hidden_size"}).value_or(0);
  const std::int64_t full = f.required({"vocab_size"}, "size of the vocabulary");
  d.vocab = f.integer({"draft_vocab_size"}).value_or(full);
  d.embedding_rows = d.vocab == full ? 0 : full;
  // SGLang's and vLLM's EAGLE-3 workers give the draft the target's embedding; the head is the draft's own.
  d.own_embedding = false;
  f.note(Kind::assumed, "own_embedding", "not in a config.json", "false: engines share the target's embedding");
  if (const HfFields::Json* eagle = f.find({"eagle_config"}); eagle && eagle->is_object()) {
    const auto taps = eagle->find("eagle_aux_hidden_state_layer_ids");
    if (taps != eagle->end() && taps->is_array() && !taps->empty())
      d.fusion_taps = static_cast<std::int64_t>(taps->size());
  }
  d.attention = hf_attention(f, d.hidden);
  for (const LayerKind& kind : hf_pattern(f, d.layers))
    if (kind.attention != Span::full)
      f.note(Kind::approximate, "layer_types", "a draft's layers attend to everything here", "full attention");
  d.mlp = hf_mlp(f, d.hidden, d.layers);
  d.weights.rest.dtype = d.kv = hf_dtype(f);
  if (f.find({"quantization_config"}))
    f.fail("quantization_config", "of a draft is not known", "a draft with unquantised weights");
  f.known({"tie_word_embeddings", "num_nextn_predict_layers"});
  return d;
}

}  // namespace

HfImport import_hf_config(const JsonFile& file, const std::string& name) {
  HfFields f(file);
  refuse_block_drafts(f);
  f.throw_if_faulty();
  HfImport out;
  if (is_eagle3(f)) {
    DraftSpec draft = draft_from(f, file.name, name);
    f.throw_if_faulty();
    hold_against_rules(draft, file.name);
    out.spec = std::move(draft);
  } else {
    StackSpec stack = stack_from(f, file.name, name);
    f.throw_if_faulty();
    hold_against_rules(stack, file.name);
    out.spec = std::move(stack);
  }
  f.note_leftovers();
  out.notes = f.notes();
  return out;
}

HfImport import_hf_config(const std::filesystem::path& file, const std::string& name) {
  return import_hf_config(load_json_file(file), name);
}

}  // namespace specstep
