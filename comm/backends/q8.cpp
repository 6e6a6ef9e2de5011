// q8: two-stage with fp8 values and a scale for each 256 of them on the wire. The result is not exact.
#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {

BackendRow q8_row() {
  return {"q8",
          "two-stage on fp8 values: half the bytes, not exact",
          {Collective::all_reduce},
          {.p2p = true, .packs = true},
          16,
          [](const Topology& t, const Call& call) {
            return priced_schedules(t, {{two_stage(call.ranks, Operation::read),
                                         {.wire = Wire::fp8, .value_bytes = bytes_of(call.dtype)}}});
          },
          [](const Topology&, const Call& call) -> std::optional<std::string> {
            if (bytes_of(call.dtype) >= 2) return std::nullopt;
            return "values of " + name_of(call.dtype) + " do not get smaller as fp8";
          }};
}

}  // namespace specstep::comm
