// ring: fp32 sums go round the ranks once, then results do.
#include "comm/cuda/own/own_comm.h"
#include "comm/cuda/own/own_kernel.cuh"
#include "comm/cuda/rows.h"
#include "comm/footprint.h"

namespace specstep::comm {

std::unique_ptr<DeviceComm> open_ring(const CommRequest& request, Bootstrap& group) {
  OwnKind kind{.id = "ring", .launch = launch_own<protocol::Protocol::ring_ll>, .inbox_bytes = std::size_t{24} << 20};
  kind.regions = own_regions("ring", request.own, 1);
  kind.note =
      "pairs of data and epoch; each shard is summed in fp32 round the ring, from the rank after its owner, and "
      "rounded "
      "once; equal bits on all ranks and in every run";
  return std::make_unique<OwnComm>(kind, request, group);
}

}  // namespace specstep::comm
