// pull1: barrier, read every other rank's vector and sum, barrier. What vLLM and sgl-kernel call one-stage.
#include "comm/backend.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {
namespace {

std::vector<Variant> variants(const Topology&, const Call& call) {
  return {{one_shot(call.ranks, Operation::read), {}}};
}

}  // namespace

BackendRow pull1_row() {
  return {"pull1",
          "one-shot pull (one-stage): read all between two barriers",
          {Collective::all_reduce},
          {.p2p = true, .packs = true},
          16,
          variants};
}

}  // namespace specstep::comm
