// For tests: runs of configs/ with overrides, as `specstep run NAME --set ...` reads them.
#pragma once

#include "sim/config.h"

namespace specstep {

inline const std::filesystem::path test_configs = std::filesystem::path(SPECSTEP_SOURCE_DIR) / "configs";

template <class T = RunConfig>
T load_run(const std::string& name, const std::vector<std::string>& sets = {}) {
  const ConfigLibrary library(test_configs);
  ReadOptions options;
  options.library = &library;
  for (const std::string& set : sets) options.overrides.push_back(parse_override(set));
  return load_config<T>(test_configs / "runs" / (name + ".yaml"), options);
}

/// What the error says that f throws.
template <class F>
std::string refusal_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace specstep
