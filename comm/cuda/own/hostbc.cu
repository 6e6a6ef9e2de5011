// hostbc: every rank writes its vector once into pinned host memory of its own, and reads those of the others there.
// Devices need not reach each other.
#include "comm/cuda/own/own_comm.h"
#include "comm/cuda/own/own_kernel.cuh"
#include "comm/cuda/rows.h"
#include "comm/footprint.h"

namespace specstep::comm {

std::unique_ptr<DeviceComm> open_hostbc(const CommRequest& request, Bootstrap& group) {
  OwnKind kind{.id = "hostbc",
               .place = Place::host,
               .launch = launch_own<protocol::Protocol::boards_ll>,
               .inbox_bytes = std::size_t{8} << 20};
  kind.regions = own_regions("hostbc", request.own, 1);
  kind.note =
      "pairs of data and epoch in host memory; fp32 sums in rank order, rounded once; equal bits on all ranks and in "
      "every run";
  return std::make_unique<OwnComm>(kind, request, group);
}

}  // namespace specstep::comm
