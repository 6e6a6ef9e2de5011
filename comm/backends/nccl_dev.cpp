// nccl_dev: our kernel on NCCL's device API (ncclLLA2ASession): one-shot push in LL lines of 8 payload bytes in 16.
#include "comm/backend.h"
#include "comm/nccl_node.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {
namespace {

std::vector<Variant> variants(const Topology&, const Call& call) {
  return {{one_shot(call.ranks, Operation::write), {.wire = Wire::ll}}};
}

std::optional<std::string> refuses(const Topology& t, const Call& call) {
  if (auto reason = nccl_is_older(t.spec().nccl, 2, 28)) return reason;
  return nccl_lacks_graph(t, call.ranks);
}

}  // namespace

BackendRow nccl_dev_row() {
  return {"nccl_dev",
          "own kernel on NCCL's device API: one-shot push in LL",
          {Collective::all_reduce},
          {.p2p = true},
          8,
          variants,
          nullptr,
          refuses};
}

}  // namespace specstep::comm
