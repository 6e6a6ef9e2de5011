// nccl_sym: NCCL's kernels on symmetric windows, as NCCL prices them.
//
// NCCL (src/sym_kernels.cc, queryModel_lsa, read at NVIDIA/nccl@01050a1) takes the cheaper of
//   all-gather in LL, reduce locally          base 4.5 us, from sm_100 11 us;    bus bytes 9 n S
//   load-reduce own part, store it to all     base 7.8 us, from sm_100 19.5 us;  bus bytes 2 S (n - 1) / n
//   T = base + softplus(bus bytes / peak - 1 us),  softplus(x) = ln(1 + e^x),  peak 320 GiB/s, from sm_100 600 GiB/s
// Where the fabric file has measured bases, they are what it costs, and NCCL's what it chooses by.
// The links of the fabric are a bound that NCCL does not look at; here the bytes take no less than they need there.
#include <algorithm>
#include <cmath>

#include "comm/backend.h"
#include "comm/nccl_node.h"
#include "comm/schedules/schedules.h"
#include "model/base/units.h"

namespace specstep::comm {
namespace {

constexpr double ll_factor = 9;
constexpr int blackwell = 100;

struct Kernel {
  double base = 0;            // seconds, as NCCL has it
  double measured_base = 0;   // and as it is
  double bus_per_byte = 0;    // NCCL's seconds on the bus per byte of the message
  double links_per_byte = 0;  // seconds on the links of this fabric
  const char* name = "";
  std::string bottleneck;

  double beside_base(double bytes) const {
    const double past = bus_per_byte * bytes / us - 1;
    const double softplus = past > 100 ? past : std::log1p(std::exp(past));
    return std::max(softplus * us, links_per_byte * bytes);
  }
  double belief(double bytes) const { return base + beside_base(bytes); }
  double cost(double bytes) const { return measured_base + beside_base(bytes); }
};

std::vector<Kernel> kernels(const Topology& t, int ranks) {
  const bool new_chip = t.spec().nccl.compute_capability >= blackwell;
  const double peak = (new_chip ? 600 : 320) * gib;
  const SchedulePrice gather = price_schedule(one_shot(ranks, Operation::write), t, {.wire = Wire::ll});
  const SchedulePrice stages = price_schedule(two_stage(ranks, Operation::read), t, {});
  const NcclBases& measured = t.spec().nccl.measured_base;
  const double gather_us = new_chip ? 11 : 4.5;
  const double stages_us = new_chip ? 19.5 : 7.8;
  return {{gather_us * us, measured.agxll_r_us ? measured.agxll_r_us->value * us : gather_us * us,
           ll_factor * ranks / peak, gather.per_byte, "AGxLL_R", gather.bottleneck},
          {stages_us * us, measured.rsxld_agxst_us ? measured.rsxld_agxst_us->value * us : stages_us * us,
           2.0 * (ranks - 1) / ranks / peak, stages.per_byte, "RSxLD_AGxST", stages.bottleneck}};
}

Prepared prepare(const Topology& t, const Call& call) {
  const NcclBases& measured = t.spec().nccl.measured_base;
  const bool fitted = price_schedule(two_stage(call.ranks, Operation::read), t, {}).slowed_by_fit ||
                      measured.agxll_r_us || measured.rsxld_agxst_us;
  return [choices = kernels(t, call.ranks), eager = t.spec().nccl.eager_us.value * us, fitted](const Call& now) {
    const auto bytes = static_cast<double>(now.bytes);
    const Kernel& best = *std::min_element(choices.begin(), choices.end(), [&](const Kernel& a, const Kernel& b) {
      return a.belief(bytes) < b.belief(bytes);
    });
    const double seconds = best.cost(bytes);
    return CommPrice{with_launch(seconds, now.captured, eager), best.name,
                     best.measured_base > seconds / 2 ? "launch and flags" : best.bottleneck,
                     fitted ? Provenance::fit : Provenance::datasheet, false};
  };
}

/// For counting bytes: the kernel for small messages.
std::vector<Variant> variants(const Topology&, const Call& call) {
  return {{one_shot(call.ranks, Operation::write), {.wire = Wire::ll}}};
}

std::optional<std::string> refuses(const Topology& t, const Call& call) {
  if (auto reason = nccl_is_older(t.spec().nccl, 2, 27)) return reason;
  return nccl_lacks_graph(t, call.ranks);
}

}  // namespace

BackendRow nccl_sym_row() {
  return {
      "nccl_sym", "NCCL on symmetric windows", {Collective::all_reduce}, {.p2p = true}, 64, variants, prepare, refuses,
      0.25};
}

}  // namespace specstep::comm
