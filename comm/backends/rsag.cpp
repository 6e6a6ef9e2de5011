// rsag: reduce-scatter and all-gather in one step each, by reads between barriers or by writes that carry their flags.
#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {

BackendRow rsag_row() {
  return {"rsag",
          "two-stage: reduce-scatter, then all-gather",
          {Collective::all_reduce},
          {.p2p = true, .packs = true},
          16,
          [](const Topology& t, const Call& call) {
            return priced_schedules(t, {{two_stage(call.ranks, Operation::read), {}},
                                        {two_stage(call.ranks, Operation::write), {.wire = Wire::sentinel}}});
          }};
}

}  // namespace specstep::comm
