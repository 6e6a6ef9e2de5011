// Names of a checkpoint's modules, and the patterns by which quantisation leaves some of them out.
#pragma once

#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "model/stack.h"

namespace specstep {

/// One entry of an ignore list or of targets: "re:..." (matched from the start), a text with * (any characters) that is
/// a module or one that holds it, or a dotted name whose components occur one after the other ("lm_head", "self_attn",
/// "model.layers.0.mlp").
class ModulePattern {
 public:
  /// Throws std::regex_error for a broken expression. Matching takes polynomial time whatever the expression.
  explicit ModulePattern(const std::string& text);
  bool matches(const std::string& module) const;

 private:
  std::string text_;
  std::vector<std::string> components_;  // of a dotted name
  std::vector<std::regex> expression_;   // one, or none
};

/// Parts of a layer whose weights share a format.
enum class ModulePart { attention, mlp, experts, shared_experts, head };

/// A matrix of a checkpoint under the names that families use for it.
using ModuleNames = std::vector<std::string>;

/// The matrices of a part in all layers that have it.
std::vector<ModuleNames> modules_of(const StackSpec& stack, ModulePart part);

}  // namespace specstep
