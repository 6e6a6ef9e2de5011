// From a fabric file to a graph with routes.
//
// A route is the path with the fewest links that are not NVLink, then the least latency (Dijkstra on that pair). GPUs,
// memories and NICs end a route and never forward: peer traffic does not pass through another GPU.
// A switch that redirects (ACS) sends peer traffic up to the root complex and down again.
#include "comm/topology.h"

#include <algorithm>
#include <limits>
#include <queue>

#include "model/base/config_io.h"

namespace specstep::comm {
namespace {

bool forwards(NodeKind kind) { return kind != NodeKind::gpu && kind != NodeKind::host_memory && kind != NodeKind::nic; }

bool is_root(NodeKind kind) { return kind == NodeKind::root_complex || kind == NodeKind::socket; }

std::size_t at(int index) { return static_cast<std::size_t>(index); }

struct Cost {
  int slow_links = 0;
  double latency = 0;
  auto operator<=>(const Cost&) const = default;
};

struct Search {
  std::vector<Cost> cost;
  std::vector<int> link;  // by which a node is entered, -1 where it is not reached
};

Search search_from(int start, const Topology& t, const std::vector<std::vector<int>>& outgoing) {
  const Cost far{std::numeric_limits<int>::max(), 0};
  Search found{std::vector<Cost>(outgoing.size(), far), std::vector<int>(outgoing.size(), -1)};
  using Item = std::pair<Cost, int>;
  std::priority_queue<Item, std::vector<Item>, std::greater<>> queue;
  found.cost[at(start)] = {};
  queue.push({{}, start});
  while (!queue.empty()) {
    const auto [cost, here] = queue.top();
    queue.pop();
    if (cost > found.cost[at(here)] || (here != start && !forwards(t.node(here).kind))) continue;
    for (int id : outgoing[at(here)]) {
      const Link& link = t.links()[at(id)];
      const Cost next{cost.slow_links + (link.kind == LinkKind::nvlink ? 0 : 1), cost.latency + link.latency};
      if (next >= found.cost[at(link.to)]) continue;
      found.cost[at(link.to)] = next;
      found.link[at(link.to)] = id;
      queue.push({next, link.to});
    }
  }
  return found;
}

Route trace(const Search& found, int start, int end, const std::vector<Link>& links) {
  Route route;
  route.reachable = start == end || found.link[at(end)] >= 0;
  if (!route.reachable || start == end) return route;
  for (int here = end; here != start; here = links[at(found.link[at(here)])].from)
    route.links.push_back(found.link[at(here)]);
  std::reverse(route.links.begin(), route.links.end());
  for (int id : route.links) route.latency += links[at(id)].latency;
  return route;
}

}  // namespace

Topology::Topology(FabricSpec spec) : spec_(std::move(spec)), outgoing_(spec_.nodes.size()) {
  for (int i = 0; i < node_count(); ++i)
    if (node(i).kind == NodeKind::gpu) gpus_.push_back(i);
  add_links();
  find_routes();
  find_neighbours();
  require_connected();
}

void Topology::add_links() {
  std::map<std::string, int> index;
  for (int i = 0; i < node_count(); ++i) index[node(i).id] = i;
  for (const LinkSpec& spec : spec_.links) {
    const LinkType& type = spec_.link_types.at(spec.type);
    const bool narrowed = spec.width && *spec.width < type.width;
    const double share = narrowed ? static_cast<double>(*spec.width) / type.width : 1.0;
    const double there = type.bandwidth_gb_s.value;
    const double back = type.back_gb_s ? type.back_gb_s->value : there;
    const int a = index.at(spec.a);
    const int b = index.at(spec.b);
    for (const auto& [from, to, rate] : {std::tuple{a, b, there}, std::tuple{b, a, back}}) {
      outgoing_[at(from)].push_back(static_cast<int>(links_.size()));
      links_.push_back({from, to, type.kind, rate * share * 1e9, type.latency_us.value * 1e-6, type.generation,
                        spec.width.value_or(type.width), narrowed});
    }
  }
}

void Topology::find_routes() {
  routes_.resize(at(node_count() * node_count()));
  for (int from = 0; from < node_count(); ++from) {
    const Search found = search_from(from, *this, outgoing_);
    for (int to = 0; to < node_count(); ++to) routes_[at(from * node_count() + to)] = trace(found, from, to, links_);
  }
  std::vector<std::pair<std::size_t, Route>> changed;
  for (int from : gpus_)
    for (int to : gpus_) {
      Route through = redirected(from, to);
      if (through.reachable) changed.push_back({at(from * node_count() + to), std::move(through)});
    }
  for (auto& [place, route] : changed) routes_[place] = std::move(route);
}

Route Topology::redirected(int from, int to) const {
  Route up_and_down;
  const Route& direct = route(from, to);
  const bool turns_at_acs = std::any_of(direct.links.begin(), direct.links.end(),
                                        [&](int id) { return node(links_[at(id)].to).acs_redirect; });
  const bool meets_root = std::any_of(direct.links.begin(), direct.links.end(),
                                      [&](int id) { return is_root(node(links_[at(id)].to).kind); });
  if (!turns_at_acs || meets_root) return up_and_down;
  int root = -1;
  for (int i = 0; i < node_count(); ++i) {
    if (!is_root(node(i).kind) || !route(from, i).reachable) continue;
    if (root < 0 || route(from, i).latency < route(from, root).latency) root = i;
  }
  if (root < 0) return up_and_down;
  up_and_down = route(from, root);
  const Route& down = route(root, to);
  up_and_down.links.insert(up_and_down.links.end(), down.links.begin(), down.links.end());
  up_and_down.latency += down.latency;
  return up_and_down;
}

void Topology::find_neighbours() {
  // Links that cost nothing are common inside an I/O die, so the fewer links decide between equal latencies.
  const auto closeness = [&](int gpu, int i) { return std::pair{route(gpu, i).latency, route(gpu, i).links.size()}; };
  const auto nearest = [&](int gpu, auto wanted) {
    int best = -1;
    for (int i = 0; i < node_count(); ++i) {
      if (!wanted(node(i).kind) || !route(gpu, i).reachable) continue;
      if (best < 0 || closeness(gpu, i) < closeness(gpu, best)) best = i;
    }
    return best;
  };
  for (int gpu : gpus_) {
    memory_.push_back(nearest(gpu, [](NodeKind k) { return k == NodeKind::host_memory; }));
    root_.push_back(nearest(gpu, is_root));
    const int above = nearest(gpu, [](NodeKind k) { return k == NodeKind::pcie_switch; });
    const bool own = above >= 0 && (root_.back() < 0 || closeness(gpu, above) < closeness(gpu, root_.back()));
    switch_.push_back(own ? above : root_.back());
  }
  for (int i = 0; i < node_count(); ++i)
    if (node(i).kind == NodeKind::nvswitch) nvswitch_ = nvswitch_ < 0 ? i : nvswitch_;
  paths_.assign(gpus_.size() * gpus_.size(), spec_.default_path);
  for (const PathSpec& p : spec_.paths)
    for (std::size_t i = 0; i < gpus_.size(); ++i)
      for (std::size_t j = 0; j < gpus_.size(); ++j)
        if ((node(gpus_[i]).id == p.a && node(gpus_[j]).id == p.b) ||
            (node(gpus_[i]).id == p.b && node(gpus_[j]).id == p.a))
          paths_[i * gpus_.size() + j] = p.path;
}

void Topology::require_connected() const {
  Issues issues;
  for (int gpu : gpus_)
    if (!route(gpus_.front(), gpu).reachable || !route(gpu, gpus_.front()).reachable)
      issues.push_back({{},
                        "links",
                        "no way between " + node(gpus_.front()).id + " and " + node(gpu).id,
                        "a path over switches, roots or sockets"});
  throw_if_any(issues);
}

std::string Topology::link_name(int link) const {
  return node(links_[at(link)].from).id + " -> " + node(links_[at(link)].to).id;
}

const Route& Topology::route(int from, int to) const { return routes_[at(from * node_count() + to)]; }

PathClass Topology::path(int rank_a, int rank_b) const { return paths_[at(rank_a) * gpus_.size() + at(rank_b)]; }

bool Topology::nvlink(int rank_a, int rank_b) const {
  const Route& way = route(gpus_[at(rank_a)], gpus_[at(rank_b)]);
  return std::all_of(way.links.begin(), way.links.end(),
                     [&](int id) { return links_[at(id)].kind == LinkKind::nvlink; });
}

bool Topology::full_nvlink(int ranks) const {
  for (int a = 0; a < ranks; ++a)
    for (int b = 0; b < a; ++b)
      if (!nvlink(a, b)) return false;
  return true;
}

NcclLevel Topology::distance(int rank_a, int rank_b) const {
  if (rank_a == rank_b) return NcclLevel::loc;
  if (nvlink(rank_a, rank_b)) return NcclLevel::nvl;
  int switches = 0;
  int roots = 0;
  bool socket = false;
  for (int id : route(gpus_[at(rank_a)], gpus_[at(rank_b)]).links) {
    const Link& link = links_[at(id)];
    switches += node(link.to).kind == NodeKind::pcie_switch ? 1 : 0;
    roots += is_root(node(link.to).kind) ? 1 : 0;
    socket = socket || link.kind == LinkKind::socket;
  }
  if (socket) return NcclLevel::sys;
  if (roots > 0) return NcclLevel::phb;
  return switches > 1 ? NcclLevel::pxb : NcclLevel::pix;
}

Topology build_topology(const FabricSpec& spec) {
  Sources none;
  Issues issues;
  Checker checker("", none, {}, issues);
  check(spec, checker);
  throw_if_any(issues);
  return Topology(spec);
}

int gpu_count(const Topology& topology) { return static_cast<int>(topology.gpus().size()); }

}  // namespace specstep::comm
