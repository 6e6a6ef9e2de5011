// Errors of cublasLt beside those of the runtime.
#pragma once

#include <cublasLt.h>

#include "comm/cuda/check.h"

namespace specstep::cuda {

using comm::check;
/// Throws Error with what was done and what the library says of it.
void check(cublasStatus_t status, std::string_view what);

}  // namespace specstep::cuda
