// nccl_dev: our kernel on NCCL's device API (ncclLLA2ASession): one-shot push in LL lines of 8 payload bytes in 16.
#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {

BackendRow nccl_dev_row() {
  return {"nccl_dev",
          "own kernel on NCCL's device API: one-shot push in LL",
          {Collective::all_reduce},
          {.p2p = true, .packs = true},
          8,
          [](const Topology& t, const Call& call) {
            return priced_schedules(t, {{one_shot(call.ranks, Operation::write), {.wire = Wire::ll}}});
          }};
}

}  // namespace specstep::comm
