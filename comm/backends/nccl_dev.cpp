// nccl_dev: our kernel on NCCL's device API (ncclLLA2ASession): one-shot push in LL lines of 8 payload bytes in 16.
#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {
namespace {

std::vector<Variant> variants(const Topology&, const Call& call) {
  return {{one_shot(call.ranks, Operation::write), {.wire = Wire::ll}}};
}

}  // namespace

BackendRow nccl_dev_row() {
  return {"nccl_dev",
          "own kernel on NCCL's device API: one-shot push in LL",
          {Collective::all_reduce},
          {.p2p = true, .packs = true},
          8,
          variants};
}

}  // namespace specstep::comm
