// The kernel of nccl_dev, as the host launches it.
#pragma once

#include <nccl.h>
#include <nccl_device.h>

#include "comm/cuda/own/device_group.h"

namespace specstep::comm {

/// Threads of a block at most; they size the lines that NCCL keeps for each.
inline constexpr unsigned nccl_dev_threads = 256;

/// What a kernel gets: NCCL's description of the group with the lines through which ranks send, and how waits end. Of
/// `group` the rank, the number of ranks and the words of WaitWords are set.
struct NcclDevGroup {
  ncclDevComm nccl{};
  ncclLLA2AHandle lines{};
  DeviceGroup group;
};

/// Puts one allreduce on the stream. All ranks launch equal grids, of at most as many blocks as there are lines for.
void launch_nccl_dev(const NcclDevGroup& group, const OwnCall& call, const Grid& grid, cudaStream_t stream);

}  // namespace specstep::comm
