// Computes the plan on the CPU: ranks are threads, numbers are real. The numerical reference.
#pragma once

#include "sim/executor.h"

namespace specstep {

/// Throws InputError when the stack does not fit into memory, or the config asks for what cannot be computed.
std::unique_ptr<Executor> make_host_executor(const RunConfig& config);

}  // namespace specstep
