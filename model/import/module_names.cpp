// Matching of module names.
#include "model/import/module_names.h"

#include <algorithm>

#include "model/base/formatted.h"

namespace specstep {

namespace {

// libstdc++'s breadth-first matcher: a config.json must not be able to hang the program.
constexpr auto polynomial = std::regex_constants::ECMAScript | std::regex_constants::__polynomial;

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t dot = std::min(text.find('.', begin), text.size());
    out.emplace_back(text.substr(begin, dot - begin));
    begin = dot + 1;
  }
  return out;
}

std::string escaped(std::string_view glob) {
  std::string out;
  for (const char c : glob) {
    if (c == '*')
      out += ".*";
    else if (std::string_view("\\^$.|?+()[]{}").find(c) != std::string_view::npos)
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out + "(\\..*)?$";
}

ModuleNames layer_modules(std::int64_t layer, std::initializer_list<const char*> names) {
  ModuleNames out;
  for (const char* root : {"model", "model.language_model", "language_model.model"})
    for (const char* name : names) out.push_back(formatted("{}.layers.{}.{}", root, layer, name));
  return out;
}

void add_attention(std::vector<ModuleNames>& out, const StackSpec& s, std::int64_t i) {
  if (s.layer(i).attention == Span::linear) {
    for (const char* name : {"linear_attn.in_proj_qkvz", "linear_attn.out_proj"})
      out.push_back(layer_modules(i, {name}));
    return;
  }
  if (s.attention.kind == AttentionKind::mla)
    for (const char* name : {"self_attn.q_a_proj", "self_attn.q_b_proj", "self_attn.kv_a_proj_with_mqa",
                             "self_attn.kv_b_proj", "self_attn.o_proj"})
      out.push_back(layer_modules(i, {name}));
  else
    for (const char* name : {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"})
      out.push_back(layer_modules(i, {name}));
}

}  // namespace

ModulePattern::ModulePattern(const std::string& text) : text_(text) {
  if (text.starts_with("re:"))
    expression_.emplace_back(text.substr(3), polynomial);
  else if (text.find('*') != std::string::npos)
    expression_.emplace_back(escaped(text), polynomial);
  else
    components_ = split(text);
}

bool ModulePattern::matches(const std::string& module) const {
  if (!expression_.empty())
    return std::regex_search(module, expression_.front(), std::regex_constants::match_continuous);
  const std::vector<std::string> parts = split(module);
  return std::search(parts.begin(), parts.end(), components_.begin(), components_.end()) != parts.end();
}

std::vector<ModuleNames> modules_of(const StackSpec& s, ModulePart part) {
  std::vector<ModuleNames> out;
  if (part == ModulePart::head) return {{"lm_head", "language_model.lm_head"}};
  for (std::int64_t i = 0; i < s.layers; ++i) {
    if (part == ModulePart::attention) add_attention(out, s, i);
    if (part == ModulePart::mlp && !s.is_moe(i))
      for (const char* name : {"mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"})
        out.push_back(layer_modules(i, {name}));
    if (part == ModulePart::experts && s.is_moe(i)) {
      out.push_back(layer_modules(i, {"mlp.experts.0.gate_proj", "mlp.experts", "block_sparse_moe.experts.0.w1"}));
      out.push_back(layer_modules(i, {"mlp.experts.0.down_proj", "mlp.experts", "block_sparse_moe.experts.0.w2"}));
    }
    if (part == ModulePart::shared_experts && s.is_moe(i) && s.mlp.shared_experts > 0)
      for (const char* name : {"gate_proj", "up_proj", "down_proj"})
        out.push_back(layer_modules(
            i, {formatted("mlp.shared_experts.{}", name).c_str(), formatted("mlp.shared_expert.{}", name).c_str()}));
  }
  return out;
}

}  // namespace specstep
