// push1: every rank writes its vector into every other rank's inbox and sums what arrives.
#include "comm/cuda/own/own_comm.h"
#include "comm/cuda/own/own_kernel.cuh"
#include "comm/cuda/rows.h"
#include "comm/footprint.h"

namespace specstep::comm {

std::unique_ptr<DeviceComm> open_push1(const CommRequest& request, Bootstrap& group) {
  // Inboxes grow with the ranks: 4 MiB in one piece for two, 1 MiB for eight, which is beyond where two stages win.
  OwnKind kind;
  kind.id = "push1";
  kind.regions = own_regions("push1", request.own, 1);
  kind.inbox_bytes = std::size_t{16} << 20;
  kind.fused = fused_push1(request.own.wire == "ll");
  kind.note = "wire " + request.own.wire;
  if (request.own.wire == "ll") {
    kind.launch = launch_own<protocol::Protocol::push_ll>;
  } else {
    kind.launch = launch_own<protocol::Protocol::push_sentinel>;
  }
  return std::make_unique<OwnComm>(kind, request, group);
}

}  // namespace specstep::comm
