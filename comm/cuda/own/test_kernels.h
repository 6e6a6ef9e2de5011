// What tests of our own backends do on a device beside their calls.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace specstep::comm {

/// Adds the bytes in which two arrays differ to *wrong.
void count_differences(const void* got, const void* expected, std::size_t bytes, unsigned* wrong, cudaStream_t stream);

/// Lasts about this long.
void launch_pause(std::uint64_t nanoseconds, cudaStream_t stream);

}  // namespace specstep::comm
