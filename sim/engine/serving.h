// What serving adds to a priced run: memory, graphs, and what a reader must know of both.
#pragma once

#include "sim/report/result.h"

namespace specstep {

/// The memory ledger of a run whose times are priced. Throws Error with the engine's own words when it would not start.
MemoryBudget require_start(const RunConfig& config);
/// For an executor that measures: its weights have to fit the GPU, engine or not. Throws Error.
void require_weights_fit(const RunConfig& config);

/// Metrics and notes on graphs; on memory where there is a ledger.
void add_serving(RunResult& result);

}  // namespace specstep
