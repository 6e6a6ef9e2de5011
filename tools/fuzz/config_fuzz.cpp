// Any bytes as a config file: refused with InputError or accepted, and then its dump reads back to the same value.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "sim/file_kind.h"

namespace {

void try_kind(const specstep::FileKind& kind, const specstep::yaml::Node& root) {
  nlohmann::ordered_json canonical;
  try {
    canonical = kind.read(root, {}, {});
  } catch (const specstep::InputError&) {
    return;
  }
  const auto again = kind.read(specstep::yaml::parse(specstep::to_yaml(canonical), "dump"), {}, {});
  if (again != canonical) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  specstep::yaml::Node root;
  try {
    root = specstep::yaml::parse({reinterpret_cast<const char*>(data), size}, "fuzz");
  } catch (const specstep::InputError&) {
    return 0;
  }
  for (const specstep::FileKind& kind : specstep::file_kinds()) try_kind(kind, root);
  return 0;
}
