// Kernels that begin while the one before them on the stream ends: a launch's own time is hidden behind it.
#pragma once

#include <cuda_runtime.h>

#include <nv/target>

#include "comm/cuda/check.h"

namespace specstep::cuda {

/// What the kernels before on the stream wrote can be read behind this. A kernel launched with the attribute of
/// programmatic serialization begins before they end: before this it reads only what no kernel of a pass writes.
__device__ inline void await_predecessors() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.wait;" ::: "memory");))
}

/// The same, and lets the next kernel's blocks come as soon as there is room for them.
__device__ inline void wait_for_predecessor() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("griddepcontrol.wait;\ngriddepcontrol.launch_dependents;" ::
                                                    : "memory");))
}

/// Whether the current device knows of such launches.
inline bool knows_early_launches() {
  int device = 0, major = 0;
  comm::check(cudaGetDevice(&device), "device of a launch");
  comm::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "device of a launch");
  return major >= 9;
}

struct EarlyLaunch {
  dim3 grid;
  unsigned threads = 0;
  int shared_bytes = 0;
  cudaStream_t stream = nullptr;
};

/// Launches a kernel that calls one of the two above before it reads or writes anything that a pass writes.
template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), const EarlyLaunch& how, const Arguments&... arguments) {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = how.grid;
  config.blockDim = dim3(how.threads);
  config.dynamicSmemBytes = static_cast<std::size_t>(how.shared_bytes);
  config.stream = how.stream;
  config.attrs = &early;
  config.numAttrs = knows_early_launches() ? 1 : 0;
  comm::check(cudaLaunchKernelEx(&config, kernel, arguments...), "launching a kernel of a pass");
}

}  // namespace specstep::cuda
