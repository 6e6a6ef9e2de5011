// q8: every rank sums one shard; parts and sums travel as fp8 with a scale for each 256 values.
#include "comm/cuda/own/own_comm.h"
#include "comm/cuda/own/own_kernel.cuh"
#include "comm/cuda/rows.h"
#include "comm/footprint.h"

namespace specstep::comm {

std::unique_ptr<DeviceComm> open_q8(const CommRequest& request, Bootstrap& group) {
  OwnKind kind{
      .id = "q8", .launch = launch_own<protocol::Protocol::quantised_two_stage>, .inbox_bytes = std::size_t{32} << 20};
  kind.regions = own_regions("q8", request.own, 1);
  kind.lossless = false;
  const auto thousandths = static_cast<int>(1000 * protocol::error_bound(1, 0)) + 1;
  kind.note =
      "fp8 e4m3 with a scale for each 256 values, not exact: a value is off by at most 0." +
      std::to_string(thousandths) +
      " of the sum of its magnitudes over the ranks, and 1/100000 of that of the largest in its group; equal bits "
      "on all ranks and in every run";
  return std::make_unique<OwnComm>(kind, request, group);
}

}  // namespace specstep::comm
