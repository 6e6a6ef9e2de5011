// ce: the ring's transfers as copy-engine operations on side streams. Line rate without thread blocks, but every step
// costs an operation.
#include <numeric>

#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {

BackendRow ce_row() {
  return {"ce",
          "copy-engine ring: frees the SMs, for large messages",
          {Collective::all_reduce},
          {.p2p = true, .packs = true},
          16,
          [](const Topology& t, const Call& call) {
            std::vector<int> order(static_cast<std::size_t>(call.ranks));
            std::iota(order.begin(), order.end(), 0);
            return priced_schedules(t, {{ring(Collective::all_reduce, order), {.copy_engine = true}}});
          }};
}

}  // namespace specstep::comm
