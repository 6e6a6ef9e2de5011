// rsag: every rank sums one shard, then all gather the shards.
#include "comm/cuda/own/own_comm.h"
#include "comm/cuda/own/own_kernel.cuh"
#include "comm/cuda/rows.h"
#include "comm/footprint.h"

namespace specstep::comm {

std::unique_ptr<DeviceComm> open_rsag(const CommRequest& request, Bootstrap& group) {
  OwnKind kind;
  kind.id = "rsag";
  kind.regions = own_regions("rsag", request.own, 1);
  kind.inbox_bytes = std::size_t{16} << 20;
  kind.fused = fused_rsag(request.own.transfer == "pull");
  kind.note = "transfer by " + request.own.transfer;
  if (request.own.transfer == "pull") {
    kind.launch = launch_own<protocol::Protocol::pull_two_stage>;
  } else {
    kind.launch = launch_own<protocol::Protocol::push_two_stage>;
  }
  return std::make_unique<OwnComm>(kind, request, group);
}

}  // namespace specstep::comm
