// hostbc: every rank writes its vector once into pinned host memory of its own, and reads those of the others there.
// Devices need not reach each other.
#include <algorithm>

#include "comm/cuda/own/own_comm.h"
#include "comm/cuda/own/own_kernel.cuh"
#include "comm/cuda/rows.h"
#include "comm/footprint.h"

namespace specstep::comm {

namespace {

void launch_boards(const DeviceGroup& group, const OwnCall& call, const Grid& grid, cudaStream_t stream) {
  const bool in_pairs = call.bytes <= protocol::packs_in_pairs(group.capacity) * sizeof(protocol::Pack);
  const Grid fewer{std::min(grid.blocks, protocol::blocks_with_flags), 512};
  launch_own<protocol::Protocol::boards>(group, call, in_pairs ? grid : fewer, stream);
}

}  // namespace

std::unique_ptr<DeviceComm> open_hostbc(const CommRequest& request, Bootstrap& group) {
  OwnKind kind{.id = "hostbc", .place = Place::host, .launch = launch_boards, .inbox_bytes = std::size_t{8} << 20};
  kind.regions = own_regions("hostbc", request.own, 1);
  kind.note =
      "short messages in pairs of data and epoch in host memory, longer ones with flags; fp32 sums in rank order, "
      "rounded once; equal bits on all ranks and in every run";
  return std::make_unique<OwnComm>(kind, request, group);
}

}  // namespace specstep::comm
