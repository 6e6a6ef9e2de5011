// Errors of the CUDA libraries as exceptions: one overload set for all of them.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

namespace specstep::comm {

/// Throws Error with what was done and what the library says of it. Out of memory says how much the device has free.
void check(cudaError_t status, std::string_view what);

}  // namespace specstep::comm
