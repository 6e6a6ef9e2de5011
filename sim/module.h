// Optional parts of the program, in shared objects that are opened only when asked for: the program itself links no
// CUDA or MPI library, so it starts as fast, and runs at all, where there are none.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace specstep {

class Executor;
struct RunConfig;

/// What a module exports under the name "specstep_module".
struct ModuleTable {
  int abi = 0;  // module_abi; anything else is refused
  /// Fills names and versions of the libraries the module was built with and those it finds; a failure is a version
  /// text that says so. Never throws.
  void (*versions)(std::vector<std::pair<std::string, std::string>>& out) = nullptr;
  /// cuda: the executor of a run. Throws Unsupported where there is no device, InputError what does not fit.
  std::unique_ptr<Executor> (*make_executor)(const RunConfig& config) = nullptr;
};
inline constexpr int module_abi = 2;

/// Opens lib/specstep/<name>.so beside the program. Throws Unsupported with the reason: not built, library missing.
const ModuleTable& open_module(const std::string& name);

/// Versions a module reports; one line with the reason when it cannot be opened.
std::vector<std::pair<std::string, std::string>> module_versions(const std::string& name);

}  // namespace specstep
