// q8: two-stage with fp8 values and a scale for each 256 of them on the wire. The result is not exact.
#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {
namespace {

std::vector<Variant> variants(const Topology&, const Call& call) {
  return {{two_stage(call.ranks, Operation::read), {.wire = Wire::fp8, .value_bytes = bytes_of(call.dtype)}}};
}

std::optional<std::string> refuses(const Topology&, const Call& call) {
  if (bytes_of(call.dtype) >= 2) return std::nullopt;
  return "values of " + name_of(call.dtype) + " do not get smaller as fp8";
}

}  // namespace

BackendRow q8_row() {
  return {"q8",
          "two-stage on fp8 values: half the bytes, not exact",
          {Collective::all_reduce},
          {.p2p = true, .packs = true},
          16,
          variants,
          nullptr,
          refuses};
}

}  // namespace specstep::comm
