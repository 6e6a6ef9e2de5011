// quantization_config to formats of parts.

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/base/formatted.h"
#include "model/import/hf_parts.h"
#include "model/import/module_names.h"

namespace specstep {

namespace {

using Kind = ImportNote::Kind;
using Json = nlohmann::ordered_json;

/// What a quantisation makes of the matrices it takes.
struct Scheme {
  WeightFormat format;
  std::vector<std::string> targets;  // empty: every linear layer
};

struct Quantization {
  std::vector<Scheme> schemes;
  std::vector<std::string> ignored;
  bool head_too = false;  // lm_head is quantised unless it is ignored
};

std::vector<std::string> texts(const Json& map, const char* key) {
  std::vector<std::string> out;
  const auto found = map.find(key);
  if (found == map.end() || !found->is_array()) return out;
  for (const Json& entry : *found)
    if (entry.is_string()) out.push_back(entry.get<std::string>());
  return out;
}

std::string text_at(const Json& map, const char* key) {
  const auto found = map.find(key);
  return found != map.end() && found->is_string() ? found->get<std::string>() : "";
}

std::int64_t number_at(const Json& map, const char* key, std::int64_t otherwise) {
  const auto found = map.find(key);
  return found != map.end() && found->is_number_integer() ? found->get<std::int64_t>() : otherwise;
}

/// Values of a block, given as its two sides; 0 when there is no such pair. A format refuses more than 65536.
std::int64_t block_at(const Json& map, const char* key) {
  const auto found = map.find(key);
  if (found == map.end() || !found->is_array() || found->size() != 2) return 0;
  double values = 1;
  for (const Json& side : *found) values *= side.is_number_integer() ? std::max(side.get<double>(), 0.0) : 0.0;
  return static_cast<std::int64_t>(std::min(values, 1e9));
}

/// hf_quant_config.json of ModelOpt has everything one level deeper.
const Json& inner_settings(const Json& config) {
  const auto inner = config.find("quantization");
  return inner != config.end() && inner->is_object() ? *inner : config;
}

class Reader {
 public:
  Reader(HfFields& f, const Json& config, const StackSpec& stack) : f_(f), config_(config), stack_(stack) {}

  Quantization read() {
    const Json& c = inner_settings(config_);
    for (const char* key : {"ignore", "modules_to_not_convert", "ignored_layers", "exclude_modules"})
      for (std::string& name : texts(c, key)) out_.ignored.push_back(std::move(name));
    const std::string method = text_at(c, "quant_method");
    if (const auto groups = c.find("config_groups"); groups != c.end() && groups->is_object()) {
      compressed_tensors(*groups, text_at(c, "format"));
    } else if (method == "fp8" || method == "fbgemm_fp8") {
      fp8(c);
    } else if (method == "mxfp4") {
      out_.schemes.push_back({{DType::mxfp4, 32, DType::fp8}, {}});
    } else if (method == "gptq" || method == "awq") {
      integers(c, number_at(c, "bits", number_at(c, "w_bit", 4)),
               number_at(c, "group_size", number_at(c, "q_group_size", 128)), "quantization_config.bits");
    } else if (method == "modelopt" || !text_at(c, "quant_algo").empty()) {
      modelopt(c);
    } else {
      f_.fail("quantization_config.quant_method", formatted("is '{}'", method),
              "fp8, mxfp4, compressed-tensors, modelopt, gptq or awq");
    }
    return std::move(out_);
  }

 private:
  void fp8(const Json& c) {
    WeightFormat format{DType::fp8, 0, DType::f32};
    format.group = block_at(c, "weight_block_size");  // one scale for a whole block
    out_.schemes.push_back({format, {}});
  }

  /// Integers of 4 or 8 bits with 16-bit scales.
  void integers(const Json& c, std::int64_t bits, std::int64_t group, const std::string& key) {
    if (bits != 4 && bits != 8) return f_.fail(key, formatted("is {}", bits), "4 or 8");
    if (const auto zero = c.find("zero_point"); zero != c.end() && *zero == true)
      f_.note(Kind::approximate, "quantization_config.zero_point", "zero points are not part of a format", "none");
    out_.schemes.push_back({integer_format(bits, group), {}});
  }

  WeightFormat integer_format(std::int64_t bits, std::int64_t group) {
    if (group <= 0) group = std::min<std::int64_t>(stack_.hidden, 65536);  // one scale for an output channel
    return {bits == 4 ? DType::int4 : DType::int8, group, stack_.weights.rest.dtype};
  }

  void modelopt(const Json& c) {
    const std::string algorithm = text_at(c, "quant_algo");
    out_.head_too = true;
    if (algorithm == "NVFP4")
      out_.schemes.push_back({{DType::nvfp4, number_at(c, "group_size", 16), DType::fp8}, {}});
    else if (algorithm == "FP8")
      out_.schemes.push_back({{DType::fp8, 0, DType::f32}, {}});
    else if (algorithm == "FP8_PB_WO")
      out_.schemes.push_back({{DType::fp8, std::int64_t{128} * 128, DType::f32}, {}});
    else if (algorithm == "W4A16_AWQ" || algorithm == "W4A8_AWQ")
      out_.schemes.push_back({integer_format(4, number_at(c, "group_size", 128)), {}});
    else
      f_.fail("quantization_config.quant_algo", formatted("is '{}'", algorithm), "NVFP4, FP8, FP8_PB_WO or W4A16_AWQ");
  }

  void compressed_tensors(const Json& groups, const std::string& outer_format) {
    out_.head_too = true;
    for (const auto& [name, group] : groups.items()) {
      const std::string key = "quantization_config.config_groups." + name + ".weights";
      const auto weights = group.is_object() ? group.find("weights") : group.end();
      if (!group.is_object() || weights == group.end() || !weights->is_object()) {
        f_.fail(key, "missing", "num_bits, type and strategy of the weights");
        continue;
      }
      std::vector<std::string> targets = texts(group, "targets");
      if (std::find(targets.begin(), targets.end(), "Linear") != targets.end()) targets.clear();
      const std::string format = text_at(group, "format").empty() ? outer_format : text_at(group, "format");
      out_.schemes.push_back({group_format(*weights, format, key), targets});
    }
  }

  WeightFormat group_format(const Json& w, const std::string& format, const std::string& key) {
    const std::int64_t bits = number_at(w, "num_bits", 0);
    const std::int64_t group = number_at(w, "group_size", 0);
    const std::string type = text_at(w, "type");
    if (type == "int" && (bits == 4 || bits == 8)) {
      if (const auto symmetric = w.find("symmetric"); symmetric != w.end() && *symmetric == false)
        f_.note(Kind::approximate, key, "zero points are not part of a format", "none");
      return integer_format(bits, group);
    }
    if (type == "float" && bits == 8) {
      const std::int64_t block = block_at(w, "block_structure");
      return {DType::fp8, block > 0 ? block : group, block > 0 ? DType::f32 : DType::bf16};
    }
    if (type == "float" && bits == 4) {
      const bool mx = format.starts_with("mxfp4") || group == 32;
      return {mx ? DType::mxfp4 : DType::nvfp4, group > 0 ? group : 16, DType::fp8};
    }
    f_.fail(key, formatted("has type '{}' of {} bits", type, bits), "int of 4 or 8 bits, or float of 4 or 8");
    return {};
  }

  HfFields& f_;
  const Json& config_;
  const StackSpec& stack_;
  Quantization out_;
};

std::vector<ModulePattern> compiled(HfFields& f, const std::vector<std::string>& texts) {
  std::vector<ModulePattern> out;
  for (const std::string& text : texts) {
    try {
      if (text.size() > 500) throw std::regex_error(std::regex_constants::error_complexity);
      out.emplace_back(text);
    } catch (const std::regex_error&) {
      f.fail("quantization_config", formatted("has the pattern '{}'", text.substr(0, 60)),
             "a name, a text with *, or re: and a regular expression of at most 500 characters");
    }
  }
  return out;
}

bool any_matches(const std::vector<ModulePattern>& patterns, const ModuleNames& names) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const ModulePattern& p) {
    return std::any_of(names.begin(), names.end(), [&](const std::string& name) { return p.matches(name); });
  });
}

/// The format of most matrices of a part; none when most are left out.
class PartFormats {
 public:
  PartFormats(HfFields& f, const StackSpec& stack, const Quantization& q)
      : f_(f), stack_(stack), quantization_(q), ignored_(compiled(f, q.ignored)) {
    for (const Scheme& scheme : q.schemes) targets_.push_back(compiled(f, scheme.targets));
  }

  std::optional<WeightFormat> of(ModulePart part, const char* name) {
    const std::vector<ModuleNames> modules = modules_of(stack_, part);
    std::vector<std::size_t> taken(quantization_.schemes.size() + 1);  // the last: left out
    for (const ModuleNames& module : modules) ++taken[scheme_of(module)];
    if (modules.empty()) return std::nullopt;
    const auto most = static_cast<std::size_t>(std::max_element(taken.begin(), taken.end()) - taken.begin());
    if (taken[most] != modules.size())
      f_.note(Kind::approximate, "quantization_config",
              formatted("treats the {} in several ways ({} of {} matrices alike)", name, taken[most], modules.size()),
              "all as most of them");
    if (most == quantization_.schemes.size()) return std::nullopt;
    return quantization_.schemes[most].format;
  }

 private:
  std::size_t scheme_of(const ModuleNames& module) const {
    if (!any_matches(ignored_, module))
      for (std::size_t s = 0; s < targets_.size(); ++s)
        if (quantization_.schemes[s].targets.empty() || any_matches(targets_[s], module)) return s;
    return targets_.size();
  }

  HfFields& f_;
  const StackSpec& stack_;
  const Quantization& quantization_;
  std::vector<ModulePattern> ignored_;
  std::vector<std::vector<ModulePattern>> targets_;
};

}  // namespace

HfFormats hf_formats(HfFields& f, const StackSpec& stack) {
  HfFormats out{stack.weights, std::nullopt};
  const Json* config = f.find({"quantization_config", "compression_config"});
  if (!config) return out;
  if (!config->is_object()) {
    f.fail("quantization_config", "is no map", "a map with quant_method");
    return out;
  }
  const Quantization q = Reader(f, *config, stack).read();
  if (q.schemes.empty()) return out;
  PartFormats formats(f, stack, q);
  out.weights.attention = formats.of(ModulePart::attention, "attention");
  out.weights.mlp = formats.of(ModulePart::mlp, "dense layers");
  out.weights.experts = formats.of(ModulePart::experts, "experts");
  out.weights.shared_experts = formats.of(ModulePart::shared_experts, "shared experts");
  if (q.head_too) out.weights.head = formats.of(ModulePart::head, "head");
  const Json& settings = inner_settings(*config);
  std::string kv = text_at(settings, "kv_cache_quant_algo");
  if (const auto scheme = settings.find("kv_cache_scheme"); scheme != settings.end() && scheme->is_object())
    kv = number_at(*scheme, "num_bits", 0) == 8 ? "FP8" : "unknown";
  if (kv == "FP8")
    out.kv = DType::fp8;
  else if (!kv.empty())
    f.note(Kind::assumed, "quantization_config", formatted("asks for a cache of type {}", kv), "the type of the model");
  return out;
}

}  // namespace specstep
