// push1: every rank writes its vector into every other rank's inbox and sums what arrives; marker values tell arrival.
#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {

BackendRow push1_row() {
  return {"push1",
          "one-shot push: write to all, sum what arrives",
          {Collective::all_reduce},
          {.p2p = true, .packs = true},
          16,
          [](const Topology& t, const Call& call) {
            return priced_schedules(t, {{one_shot(call.ranks, Operation::write), {.wire = Wire::sentinel}}});
          }};
}

}  // namespace specstep::comm
