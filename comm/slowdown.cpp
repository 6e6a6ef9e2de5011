// Which flows trigger a declared slowdown.
//
// For each declaration, flows of its operation that pass a link of its kind are grouped by direction: the first such
// link on their way. In a direction, a switch fans out when at least `sources` of its GPUs send and they reach at least
// `destinations` destinations. The slowdown holds in a direction in which at least `switches` switches fan out and, for
// `both_ways`, the opposite direction does too. It adds one capacity for each pool.
#include "comm/slowdown.h"

#include <map>
#include <set>

namespace specstep::comm {
namespace {

std::size_t at(int index) { return static_cast<std::size_t>(index); }

int first_link(const Topology& t, const PeerFlow& flow, LinkKind kind) {
  for (int id : t.route(t.gpus()[at(flow.source_rank)], t.gpus()[at(flow.target_rank)]).links)
    if (t.links()[at(id)].kind == kind) return id;
  return -1;
}

struct Fan {
  std::set<int> sources;
  std::set<int> destinations;
  std::vector<std::size_t> flows;
};

using Fans = std::map<int, Fan>;  // by switch

std::map<int, Fans> fans_by_direction(const Topology& t, const SlowdownSpec& s, const std::vector<PeerFlow>& flows) {
  std::map<int, Fans> directions;
  for (std::size_t i = 0; i < flows.size(); ++i) {
    if (flows[i].operation != s.operation) continue;
    const int link = first_link(t, flows[i], s.across);
    if (link < 0) continue;
    Fan& fan = directions[link][t.switch_of(flows[i].source_rank)];
    fan.sources.insert(flows[i].source_rank);
    fan.destinations.insert(s.counted == Ends::gpu ? flows[i].target_rank : t.root_of(flows[i].target_rank));
    fan.flows.push_back(i);
  }
  return directions;
}

bool fans_out(const Fan& fan, const SlowdownSpec& s) {
  return static_cast<int>(fan.sources.size()) >= s.sources &&
         static_cast<int>(fan.destinations.size()) >= s.destinations;
}

bool triggered(const Fans& fans, const SlowdownSpec& s) {
  int count = 0;
  for (const auto& [node, fan] : fans) count += fans_out(fan, s) ? 1 : 0;
  return count >= s.switches;
}

int pool_of(const SlowdownSpec& s, int link, int node, int rank) {
  return s.pool == Pool::gpu ? rank : s.pool == Pool::pcie_switch ? node : link;
}

bool reversed_too(const Topology& t, const std::map<int, Fans>& directions, int link, const SlowdownSpec& s) {
  for (const auto& [other, fans] : directions) {
    const Link& here = t.links()[at(link)];
    const Link& there = t.links()[at(other)];
    if (here.from == there.to && here.to == there.from) return triggered(fans, s);
  }
  return false;
}

}  // namespace

std::vector<SharedLimit> slowdowns_of(const Topology& topology, const std::vector<PeerFlow>& flows) {
  std::vector<SharedLimit> limits;
  for (const SlowdownSpec& s : topology.spec().slowdowns) {
    const std::map<int, Fans> directions = fans_by_direction(topology, s, flows);
    for (const auto& [link, fans] : directions) {
      if (!triggered(fans, s) || (s.both_ways && !reversed_too(topology, directions, link, s))) continue;
      std::map<int, std::vector<std::size_t>> pools;
      for (const auto& [node, fan] : fans) {
        if (!fans_out(fan, s)) continue;
        for (std::size_t i : fan.flows) pools[pool_of(s, link, node, flows[i].source_rank)].push_back(i);
      }
      for (auto& [key, members] : pools)
        limits.push_back({s.name, s.bandwidth_gb_s.value * 1e9, std::move(members), &s});
    }
  }
  return limits;
}

}  // namespace specstep::comm
