// Protocols as kernels.
#pragma once

#include "comm/cuda/check.h"
#include "comm/cuda/own/device_memory.cuh"
#include "comm/protocol/run_lane.h"

namespace specstep::comm {

template <protocol::Protocol P, class Values, int most>
__global__ void __launch_bounds__(512)
    own_kernel(const __grid_constant__ DeviceGroup group, const __grid_constant__ OwnCall call) {
  DeviceMemory<Values, most> memory(group, call);
  if (!memory.usable()) return;
  protocol::run_lane<P>(memory, call_of(group, call), memory.lane());
}

template <protocol::Protocol P>
struct OwnKernel {
  template <class Values, int most>
  struct With {
    static void launch(const DeviceGroup& group, const OwnCall& call, const Grid& grid, cudaStream_t stream) {
      own_kernel<P, Values, most><<<grid.blocks, grid.threads, 0, stream>>>(group, call);
    }
  };
};

/// Puts one call on the stream.
template <protocol::Protocol P>
void launch_own(const DeviceGroup& group, const OwnCall& call, const Grid& grid, cudaStream_t stream) {
  for_values_and_ranks<OwnKernel<P>::template With>(call.dtype, group.capacity.ranks, group, call, grid, stream);
  check(cudaGetLastError(), "launching an allreduce");
}

}  // namespace specstep::comm
