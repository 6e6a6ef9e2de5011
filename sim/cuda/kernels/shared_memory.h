// Shared memory beyond what kernels get unasked.
#pragma once

#include <cuda_runtime_api.h>

#include <string>
#include <string_view>

#include "comm/cuda/check.h"
#include "model/base/error.h"

namespace specstep::cuda {

/// Lets a kernel be launched with `bytes` of dynamic shared memory on the current device. The limit that it sets is the
/// device's own, always the same: ranks that share a device set it at any time, and none may lower it for another.
template <class Kernel>
void allow_shared_memory(Kernel* kernel, int bytes, std::string_view what) {
  int device = 0, most = 0;
  comm::check(cudaGetDevice(&device), what);
  comm::check(cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, device), what);
  cudaFuncAttributes attributes{};
  const auto* const function = reinterpret_cast<const void*>(kernel);
  comm::check(cudaFuncGetAttributes(&attributes, function), what);
  most -= static_cast<int>(attributes.sharedSizeBytes);
  if (bytes > most)
    throw Error(std::string(what) + ": needs " + std::to_string(bytes) + " bytes of shared memory, the device has " +
                std::to_string(most));
  comm::check(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, most), what);
}

}  // namespace specstep::cuda
