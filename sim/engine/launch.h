// How the passes of a run are launched: the captured size they run at, or eagerly; and what capturing takes.
#pragma once

#include <cstdint>
#include <string>

#include "model/plan.h"
#include "sim/config.h"

namespace specstep {

/// Sizes that the engine of a run captures. `speculative`: of the server that speculates; the plain decode that it is
/// compared with is another server.
CaptureList captured_sizes(const RunConfig& config, bool speculative);

/// New tokens of each sequence in a pass.
std::int64_t tokens_each(const RunConfig& config, PassKind kind);

/// How a pass runs: the captured size it is padded to, or eagerly as it is.
struct LaunchChoice {
  Launch launch = Launch::eager;
  std::int64_t padded_batch = 1;  // sequences
  bool beyond = false;            // it would be captured, but for its size
  std::string why;
};
/// `batch` sequences, of all attention groups together. Where tokens are counted the padded batch is the captured size
/// in sequences, to the nearest.
LaunchChoice choose_launch(const RunConfig& config, PassKind kind, std::int64_t batch);

/// What capturing takes before the server answers.
struct CaptureEstimate {
  double graphs = 0;  // of all kinds of pass
  double bytes = 0;
  double seconds = 0;
  std::string how;
};
CaptureEstimate capture_estimate(const RunConfig& config);

/// Host time to launch a plan's kernels, seconds: one graph (none), pieces, or kernel by kernel, each with what the
/// driver takes and, where it is known, the engine.
double host_launch_seconds(const Plan& plan, Launch launch, const GpuSpec& gpu, const EngineSpec& engine);
/// Graphs that a plan falls into when its attentions are launched one by one.
std::int64_t pieces_of(const Plan& plan);

}  // namespace specstep
