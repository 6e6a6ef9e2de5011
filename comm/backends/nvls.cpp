// nvls: the NVSwitch reduces and broadcasts (multimem instructions). Only where the fabric file allows it.
#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {
namespace {

std::vector<Variant> variants(const Topology&, const Call& call) { return {{multicast(call.ranks), {}}}; }

}  // namespace

BackendRow nvls_row() {
  return {"nvls",
          "multicast two-shot: the NVSwitch reduces and broadcasts",
          {Collective::all_reduce},
          {.multicast = true, .packs = true},
          16,
          variants};
}

}  // namespace specstep::comm
