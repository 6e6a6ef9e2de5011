// Whose rules a serving engine follows, and of which version.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/base/describe.h"

namespace specstep {

enum class EnginePreset { sglang, vllm, trtllm };
/// captured: one CUDA graph. piecewise: graphs between attentions, which are launched one by one. eager: all one by
/// one.
enum class Launch { captured, piecewise, eager };

template <>
struct EnumNames<EnginePreset> {
  static std::vector<std::string> names() { return {"sglang", "vllm", "trtllm"}; }
};
template <>
struct EnumNames<Launch> {
  static std::vector<std::string> names() { return {"captured", "piecewise", "eager"}; }
};

/// Whether a version is one that rules can be chosen by: whole numbers with points between them.
bool is_version(const std::string& text);
/// Whether `version` is `first` or later, number by number. An empty version is later than all: the newest rules known.
bool is_since(const std::string& version, std::string_view first);

}  // namespace specstep
