// Runs plans on GPUs: cublasLt and own kernels between real collectives, captured in graphs as engines do.
#pragma once

#include "sim/executor.h"

namespace specstep {

/// Throws Unsupported where there is no GPU or too few, InputError when the run does not fit or cannot be computed.
std::unique_ptr<Executor> make_cuda_executor(const RunConfig& config);

}  // namespace specstep
