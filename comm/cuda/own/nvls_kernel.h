// The kernel of nvls, which only compilers for GPUs from Hopper on take.
#pragma once

#include "comm/cuda/own/device_group.h"

namespace specstep::comm {

/// Memory for one message on this rank, and the address that stands for that of all ranks.
struct SwitchMemory {
  std::byte* own = nullptr;
  std::byte* all = nullptr;
};

/// Puts one allreduce of at most the group's capacity on the stream. Each rank has the switch sum one shard, in fp32
/// and in the switch's order, and hand it to all.
cudaError_t launch_nvls(const DeviceGroup& group, const OwnCall& call, const SwitchMemory& memory, const Grid& grid,
                        cudaStream_t stream);

}  // namespace specstep::comm
