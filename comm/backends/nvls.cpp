// nvls: the NVSwitch reduces and broadcasts (multimem instructions). Only where the fabric file allows it.
#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {

BackendRow nvls_row() {
  return {"nvls",
          "multicast two-shot: the NVSwitch reduces and broadcasts",
          {Collective::all_reduce},
          {.multicast = true, .packs = true},
          16,
          [](const Topology& t, const Call& call) {
            return priced_schedules(t, {{multicast(call.ranks), {}}});
          }};
}

}  // namespace specstep::comm
