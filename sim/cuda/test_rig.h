// For tests: the small runs of sim/host/test_runs.h on devices.
#pragma once

#include <optional>

#include "sim/cuda/memory.h"
#include "sim/cuda/prepared.h"
#include "sim/host/test_runs.h"

namespace specstep::cuda {

inline int devices_here() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

/// A run's models on the devices of this machine; as host::Rig.
struct CudaRig {
  explicit CudaRig(RunConfig run)
      : config(std::move(run)),
        crew(config),
        target(host::view_of(config.stack, &*config.draft), ranks(), config, holding_of(config), crew),
        draft(host::view_of(*config.draft), ranks(), config, holding_of(config), crew),
        runner(config, target, &draft),
        generator(config, target, &draft) {}
  int ranks() const { return static_cast<int>(config.parallel.tensor); }

  RunConfig config;
  Crew crew;
  Model target;
  Model draft;
  host::Runner runner;
  host::TokenGenerator generator;
};

inline RunConfig device_run(const std::string& stack, const std::string& draft, std::int64_t ranks,
                            const std::string& precision, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"measure.cuda={generate: true, precision: " + precision + "}", "comm.backend=nccl"});
  more.push_back("measure.host.precision=" + precision);
  return host::small_run(stack, draft, ranks, more);
}

}  // namespace specstep::cuda
