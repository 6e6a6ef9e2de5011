// The benchmark of an executor that generates real tokens.
#pragma once

#include <functional>

#include "sim/executor.h"
#include "sim/report/result.h"

namespace specstep {

/// Told what is being done, for a progress line.
using Progress = std::function<void(const std::string&)>;

/// Answers the prompts measure.warmup + measure.runs times, plainly and, with speculation, with drafts; each counted
/// generation is a sample of every metric, a value is their median, low and high their range. The acceptance length is
/// counted, not taken from the config. The breakdown of a pass comes from traced passes of its own, halfway through
/// the output, scaled to the mean of the untraced ones.
RunResult run_measured(const RunConfig& config, Executor& executor, Generator& generator, const Progress& progress);

}  // namespace specstep
