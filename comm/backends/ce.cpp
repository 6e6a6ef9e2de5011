// ce: the ring's transfers as copy-engine operations on side streams. Line rate without thread blocks, but every step
// costs an operation.
#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {
namespace {

std::vector<Variant> variants(const Topology&, const Call& call) {
  return {{ring(Collective::all_reduce, in_rank_order(call.ranks)), {.copy_engine = true}}};
}

}  // namespace

BackendRow ce_row() {
  return {"ce",
          "copy-engine ring: frees the SMs, for large messages",
          {Collective::all_reduce},
          {.p2p = true, .packs = true},
          16,
          variants};
}

}  // namespace specstep::comm
