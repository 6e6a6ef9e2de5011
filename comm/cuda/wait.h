// Waiting for a stream that may depend on other ranks.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "comm/cuda/device_comm.h"

namespace specstep::comm {

/// Returns when all work of the stream is done. When that takes longer than the limit, or the backend reports a failure
/// meanwhile, the backend is aborted so that the stream can drain, and Error says what was waited for.
void wait_for(cudaStream_t stream, DeviceComm& comm, double limit_seconds, std::string_view what);

}  // namespace specstep::comm
