// ring: our own ring kernel, in rank order. With the LL wire the flag travels with the data and costs half the bytes.
#include <numeric>

#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {

BackendRow ring_row() {
  return {"ring",
          "own ring: 2(n-1) steps, one flow per link",
          {Collective::all_reduce},
          {.p2p = true, .packs = true},
          16,
          [](const Topology& t, const Call& call) {
            std::vector<int> order(static_cast<std::size_t>(call.ranks));
            std::iota(order.begin(), order.end(), 0);
            return priced_schedules(t, {{ring(Collective::all_reduce, order), {.wire = Wire::ll}}});
          }};
}

}  // namespace specstep::comm
