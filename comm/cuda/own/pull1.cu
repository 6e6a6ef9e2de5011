// pull1: every rank reads all inputs between two barriers, as the one-stage kernels of vLLM and SGLang do.
#include "comm/cuda/own/own_comm.h"
#include "comm/cuda/own/own_kernel.cuh"
#include "comm/cuda/rows.h"
#include "comm/footprint.h"

namespace specstep::comm {

std::unique_ptr<DeviceComm> open_pull1(const CommRequest& request, Bootstrap& group) {
  OwnKind kind;
  kind.id = "pull1";
  kind.regions = own_regions("pull1", request.own, 1);
  kind.launch = launch_own<protocol::Protocol::pull_one_stage>;
  kind.inbox_bytes = std::size_t{4} << 20;
  kind.fused = fused_pull1();
  return std::make_unique<OwnComm>(kind, request, group);
}

}  // namespace specstep::comm
