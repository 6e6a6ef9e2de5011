// What NCCL sees of a topology.
#include "comm/nccl_node.h"

#include <array>

#include "comm/nccl_settings.h"
#include "model/base/formatted.h"

namespace specstep::comm {
namespace {

const NcclGraph* graph_for(const NcclSpec& spec, int ranks) {
  for (const NcclGraph& graph : spec.graphs)
    if (ranks <= graph.ranks) return &graph;
  return nullptr;
}

bool through_host(const Topology& t, int a, int b) {
  const PathClass path = t.path(a, b);
  return path == PathClass::none || t.distance(a, b) > t.spec().nccl.p2p_level;
}

}  // namespace

std::optional<std::string> nccl_lacks_graph(const Topology& topology, int ranks) {
  if (graph_for(topology.spec().nccl, ranks)) return std::nullopt;
  return formatted("the fabric file has no NCCL channel graph for {} ranks (nccl.graphs)", ranks);
}

std::optional<std::string> nccl_is_older(const NcclSpec& spec, int major, int minor) {
  const std::array<int, 3> version = nccl_version(spec.version).value_or(std::array{0, 0, 0});
  if (version >= std::array{major, minor, 0}) return std::nullopt;
  return formatted("needs NCCL {}.{}; the fabric has {} (nccl.version)", major, minor, spec.version);
}

NcclNode nccl_node(const Topology& topology, int ranks) {
  if (const auto reason = nccl_lacks_graph(topology, ranks)) throw InputError({{}, "nccl.graphs", *reason, ""});
  const NcclSpec& spec = topology.spec().nccl;
  const NcclGraph& graph = *graph_for(spec, ranks);
  int shared = 0;
  for (int r = 0; r < ranks; ++r) shared += through_host(topology, r, (r + 1) % ranks) ? 1 : 0;
  NcclNode node;
  node.ranks = ranks;
  node.nvlink = topology.full_nvlink(ranks) && shared == 0;
  node.compute_capability = spec.compute_capability;
  node.channels = graph.channels;
  node.channel_gb_s = graph.channel_gb_s.value;
  node.nvls = spec.nvls && topology.spec().multicast;
  if (!spec.protocol.empty()) node.protocols = nccl_protocols(spec.protocol);
  node.shm_share = static_cast<double>(shared) / ranks;
  node.shm_hop = spec.shm_hop_us.value * 1e-6;
  node.shm_bus_gb_s = spec.shm_bus_gb_s.value;
  if (spec.measured_base.ring_ll_us) node.ring_ll_base = spec.measured_base.ring_ll_us->value * 1e-6;
  return node;
}

}  // namespace specstep::comm
