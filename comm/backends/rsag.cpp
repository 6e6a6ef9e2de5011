// rsag: reduce-scatter and all-gather in one step each, by reads between barriers: what vLLM and SGLang call two-stage.
// The variant by writes has no barriers and should be faster; no measurement of it at these sizes is known to us, so it
// is a schedule (two_stage) and not the price.
#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {
namespace {

std::vector<Variant> variants(const Topology&, const Call& call) {
  return {{two_stage(call.ranks, Operation::read), {}}};
}

}  // namespace

BackendRow rsag_row() {
  return {
      "rsag",  "two-stage: reduce-scatter, then all-gather", {Collective::all_reduce}, {.p2p = true, .packs = true}, 16,
      variants};
}

}  // namespace specstep::comm
