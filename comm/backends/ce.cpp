// ce: two stages by copy-engine operations on side streams. Line rate with few thread blocks, but every stage costs an
// operation.
#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {
namespace {

std::vector<Variant> variants(const Topology&, const Call& call) {
  return {{two_stage(call.ranks, Operation::write), {.copy_engine = true}}};
}

}  // namespace

BackendRow ce_row() {
  return {"ce",
          "copy engines move, kernels sum: frees the SMs, for large messages",
          {Collective::all_reduce},
          {.p2p = true, .packs = true},
          16,
          variants};
}

}  // namespace specstep::comm
