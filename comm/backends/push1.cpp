// push1: every rank writes its vector into every other rank's inbox and sums what arrives; marker values tell arrival.
#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {
namespace {

std::vector<Variant> variants(const Topology&, const Call& call) {
  return {{one_shot(call.ranks, Operation::write), {.wire = Wire::sentinel}}};
}

}  // namespace

BackendRow push1_row() {
  return {"push1",
          "one-shot push: write to all, sum what arrives",
          {Collective::all_reduce},
          {.p2p = true, .packs = true},
          16,
          variants};
}

}  // namespace specstep::comm
