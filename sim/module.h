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
struct CommBenchmark;
namespace comm {
class Bootstrap;
struct MeasureRequest;
}  // namespace comm

/// What a module exports under the name "specstep_module". Functions that a module does not have are nullptr.
struct ModuleTable {
  int abi = 0;  // module_abi; anything else is refused
  /// Fills names and versions of the libraries the module was built with and those it finds; a failure is a version
  /// text that says so. Never throws.
  void (*versions)(std::vector<std::pair<std::string, std::string>>& out) = nullptr;
  /// cuda: the executor of a run. Throws Unsupported with the reason where there is no device for it, InputError
  /// what does not fit.
  std::unique_ptr<Executor> (*make_executor)(const RunConfig& config) = nullptr;
  /// mpi: this process as a rank of those that mpirun started, see sim/mpi/bootstrap.h. Throws Error when MPI does not
  /// start. The module must stay open until the process ends.
  std::unique_ptr<comm::Bootstrap> (*make_bootstrap)(double wait_limit_seconds) = nullptr;
  /// cuda: see sim/comm_bench.h.
  CommBenchmark (*measure_comm)(const comm::MeasureRequest& request) = nullptr;
};
inline constexpr int module_abi = 3;

/// Opens lib/specstep/<name>.so beside the program. Throws Unsupported with the reason: not built, library missing.
const ModuleTable& open_module(const std::string& name);

/// Versions a module reports; one line with the reason when it cannot be opened.
std::vector<std::pair<std::string, std::string>> module_versions(const std::string& name);

}  // namespace specstep
