// Any text as --set on a small run: refused with InputError or applied, never a crash.
#include <nlohmann/json.hpp>
#include <string>

#include "sim/config.h"

namespace {
const char* const stack = R"(name: x
layers: 4
hidden: 256
vocab: 512
attention: {kind: gqa, heads: 8, kv_heads: 2, head_dim: 32}
mlp: {kind: dense, intermediate: 512}
)";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    specstep::ReadOptions options;
    options.overrides.push_back(specstep::parse_override({reinterpret_cast<const char*>(data), size}));
    specstep::read_config<specstep::StackSpec>(specstep::yaml::parse(stack, "stack.yaml"), options);
  } catch (const specstep::InputError&) {
    return 0;
  }
  return 0;
}
