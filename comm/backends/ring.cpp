// ring: our own ring kernel, in rank order. With the LL wire the flag travels with the data and costs half the bytes.
#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {
namespace {

std::vector<Variant> variants(const Topology&, const Call& call) {
  return {{ring(Collective::all_reduce, in_rank_order(call.ranks)), {.wire = Wire::ll}}};
}

}  // namespace

BackendRow ring_row() {
  return {
      "ring",  "own ring: 2(n-1) steps, one flow per link", {Collective::all_reduce}, {.p2p = true, .packs = true}, 16,
      variants};
}

}  // namespace specstep::comm
