// pull1: barrier, read every other rank's vector and sum, barrier. What vLLM and sgl-kernel call one-stage.
#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {

BackendRow pull1_row() {
  return {"pull1",
          "one-shot pull (one-stage): read all between two barriers",
          {Collective::all_reduce},
          {.p2p = true, .packs = true},
          16,
          [](const Topology& t, const Call& call) {
            return priced_schedules(t, {{one_shot(call.ranks, Operation::read), {}}});
          }};
}

}  // namespace specstep::comm
