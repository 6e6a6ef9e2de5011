// nccl: priced by NCCL's own cost model, with hops through shared host memory at their measured speed.

#include <algorithm>

#include "comm/backend.h"
#include "comm/nccl_node.h"
#include "comm/schedules/schedules.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {
namespace {

// NCCL_P2P_LL_THRESHOLD, NVIDIA/nccl@v2.28.9-1 src/enqueue.cc: send and receive use LL up to this size per peer.
constexpr std::int64_t send_ll_bytes = 16384;

double wire_of(NcclProtocol protocol, double bytes) {
  switch (protocol) {
    case NcclProtocol::ll:
      return wire_factor(Wire::ll, bytes);
    case NcclProtocol::ll128:
      return wire_factor(Wire::ll128, bytes);
    case NcclProtocol::simple:
      return 1;
  }
  return 1;
}

/// What the links give NCCL's algorithms.
struct OnLinks {
  SchedulePrice ring;
  std::optional<SchedulePrice> nvls;

  const SchedulePrice& of(const NcclTime& choice) const {
    return choice.algorithm == NcclAlgorithm::nvls && nvls ? *nvls : ring;
  }
};

OnLinks links_for(const Topology& t, const Call& call, const NcclNode& node) {
  const Carrier carrier{.peers = node.shm_share < 1};
  OnLinks links{price_schedule(ring(call.kind, in_rank_order(call.ranks)), t, carrier), {}};
  if (node.nvls && t.nvswitch() >= 0) links.nvls = switch_price(t, call.ranks);
  return links;
}

/// NCCL's model knows the fabric only by its channel graph. What the links give a ring is a bound that it cannot beat:
/// a narrower or slower link than the graph was found on shows here. Schedules count the whole vector: of an all_gather
/// what all ranks contribute.
CommPrice collective_price(const NcclNode& node, const OnLinks& by_algorithm, const Call& call, double eager_us) {
  const NcclTime choice = nccl_choice(node, call.kind, call.bytes);
  const double modelled = nccl_cost(node, call.kind, call.bytes, choice);
  const SchedulePrice& links = by_algorithm.of(choice);
  const double whole = static_cast<double>(call.bytes) * (call.kind == Collective::all_gather ? call.ranks : 1);
  const double on_links = links.per_byte * wire_of(choice.protocol, whole) * whole;
  const double captured = std::max(modelled, on_links);
  const double seconds = with_launch(captured, call.captured, eager_us * us);
  std::string where = node.shm_share > 0 ? "steps through shared host memory" : "steps of the ring or tree";
  const double latency = nccl_cost(node, call.kind, 0, choice);
  if (captured > 2 * latency) where = formatted("bus bandwidth of {} channels", node.channels);
  if (on_links > modelled) where = links.bottleneck;
  if (seconds > captured) where = "eager launch";
  return {seconds, nccl_name(choice), where,
          node.shm_share > 0 || node.ring_ll_base ? Provenance::fit : Provenance::datasheet,
          choice.algorithm == NcclAlgorithm::nvls || (choice.protocol == NcclProtocol::simple && call.bytes < 65536)};
}

/// All-to-all is a group of sends and receives: the base and one step of a ring, and the bytes on the links.
Prepared exchange(const Topology& t, const Call& call, const NcclNode& node, double eager_us) {
  const Schedule schedule = direct(Collective::all_to_all, call.ranks, Operation::write);
  const SchedulePrice links = price_schedule(schedule, t, {});
  return [links, node, eager_us](const Call& now) {
    const std::int64_t each = now.bytes / now.ranks;
    const bool ll = each <= send_ll_bytes;
    NcclNode pair = node;
    pair.ranks = 2;
    const auto protocol = ll ? NcclProtocol::ll : NcclProtocol::simple;
    const auto step = nccl_predicts(pair, Collective::reduce_scatter, 0, NcclAlgorithm::ring, protocol);
    const double wire = ll ? wire_factor(Wire::ll, 0) : 1;
    const double captured =
        nccl_cost(pair, Collective::reduce_scatter, 0, *step) + links.per_byte * wire * static_cast<double>(now.bytes);
    return CommPrice{with_launch(captured, now.captured, eager_us * us),
                     ll ? "send and receive LL" : "send and receive", links.bottleneck, Provenance::fit, true};
  };
}

Prepared prepare(const Topology& t, const Call& call) {
  const NcclNode node = nccl_node(t, call.ranks);
  const double eager_us = t.spec().nccl.eager_us.value;
  if (call.kind == Collective::all_to_all) return exchange(t, call, node, eager_us);
  return [node, links = links_for(t, call, node), eager_us](const Call& now) {
    return collective_price(node, links, now, eager_us);
  };
}

/// For counting bytes: a ring in LL, or the pairwise exchange.
std::vector<Variant> variants(const Topology&, const Call& call) {
  if (call.kind == Collective::all_to_all) return {{direct(call.kind, call.ranks, Operation::write), {}}};
  return {{ring(call.kind, in_rank_order(call.ranks)), {.wire = Wire::ll}}};
}

std::optional<std::string> refuses(const Topology& t, const Call& call) { return nccl_lacks_graph(t, call.ranks); }

}  // namespace

BackendRow nccl_row() {
  return {"nccl",
          "NCCL's ring, tree or NVLS, as its tuner chooses",
          {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter, Collective::all_to_all},
          {},
          64,
          variants,
          prepare,
          refuses,
          0.25};
}

}  // namespace specstep::comm
