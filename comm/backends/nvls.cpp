// nvls: the NVSwitch reduces and broadcasts (multimem instructions). Only where the fabric file allows it.
//
// Each GPU sends and receives S (1 + 1/n): its vector once, its part once. How much of a link the switch gives is not
// measured at our place or in a source of ours; NCCL's tuner takes 0.85 of it on Hopper and 0.74 on Blackwell
// (NVIDIA/nccl@v2.28.9-1 src/graph/tuning.cc, nvlsEfficiency), and so does this price, which is called assumed.
#include "comm/backend.h"
#include "comm/nccl_model.h"
#include "comm/schedules/schedules.h"

namespace specstep::comm {
namespace {

std::vector<Variant> variants(const Topology&, const Call& call) { return {{multicast(call.ranks), {}}}; }

Prepared prepare(const Topology& t, const Call& call) {
  return [price = switch_price(t, call.ranks), eager = t.spec().gpu.eager_launch_us.value * 1e-6](const Call& now) {
    const double seconds = price.fixed + price.per_byte * static_cast<double>(now.bytes);
    return CommPrice{with_launch(seconds, now.captured, eager), "multicast two-shot",
                     price.fixed > seconds / 2 ? "launch, arrival and flags" : price.bottleneck, Provenance::assumed,
                     true};
  };
}

std::optional<std::string> refuses(const Topology&, const Call& call) {
  if (!call.own || call.own->nvls) return std::nullopt;
  return "not without comm.own.nvls: true";
}

}  // namespace

SchedulePrice switch_price(const Topology& t, int ranks) {
  SchedulePrice price = price_schedule(multicast(ranks), t, {});
  const double efficiency = nvls_efficiency(t.spec().nccl.compute_capability);
  if (efficiency > 0) price.per_byte /= efficiency;
  return price;
}

BackendRow nvls_row() {
  return {"nvls",
          "multicast two-shot: the NVSwitch reduces and broadcasts",
          {Collective::all_reduce},
          {.multicast = true, .packs = true},
          16,
          variants,
          prepare,
          refuses};
}

}  // namespace specstep::comm
