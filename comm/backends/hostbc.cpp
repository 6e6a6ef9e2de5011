// hostbc: host broadcast, with marker values or the LL wire. Needs no peer access.
#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {
namespace {

std::vector<Variant> variants(const Topology&, const Call& call) {
  return {{host_broadcast(call.ranks), {.wire = Wire::sentinel}}, {host_broadcast(call.ranks), {.wire = Wire::ll}}};
}

}  // namespace

BackendRow hostbc_row() {
  return {"hostbc",
          "write once to pinned host memory, all read: no peer access needed",
          {Collective::all_reduce},
          {.host_memory = true, .packs = true},
          16,
          variants};
}

}  // namespace specstep::comm
