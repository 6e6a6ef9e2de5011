// hostbc: host broadcast with the LL wire. Needs no peer access.
#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {

BackendRow hostbc_row() {
  return {"hostbc",
          "write once to pinned host memory, all read: no peer access needed",
          {Collective::all_reduce},
          {.host_memory = true, .packs = true},
          16,
          [](const Topology& t, const Call& call) {
            return priced_schedules(t, {{host_broadcast(call.ranks), {.wire = Wire::sentinel}},
                                        {host_broadcast(call.ranks), {.wire = Wire::ll}}});
          }};
}

}  // namespace specstep::comm
