// The graph of a machine's fabric: nodes, directed links, and the route of each pair.
#pragma once

#include <string>
#include <vector>

#include "comm/fabric.h"

namespace specstep::comm {

/// One direction of a link. Bytes and seconds.
struct Link {
  int from = 0;
  int to = 0;
  LinkKind kind = LinkKind::pcie;
  double bytes_per_second = 0;
  double latency = 0;
  int generation = 0;
  int width = 0;
  bool narrowed = false;  // fewer lanes than the type of link has
};

/// The way from one node to another: directed links in order.
struct Route {
  std::vector<int> links;
  double latency = 0;  // seconds, of the links alone
  bool reachable = false;
};

/// Built once from a spec, then only read; safe to share between threads.
class Topology {
 public:
  explicit Topology(FabricSpec spec);

  const FabricSpec& spec() const { return spec_; }
  const std::vector<Link>& links() const { return links_; }
  std::string link_name(int link) const;
  int node_count() const { return static_cast<int>(spec_.nodes.size()); }
  const NodeSpec& node(int index) const { return spec_.nodes[static_cast<std::size_t>(index)]; }
  /// Node of each rank.
  const std::vector<int>& gpus() const { return gpus_; }
  /// Host memory closest to a rank, or -1.
  int memory_of(int rank) const { return memory_[static_cast<std::size_t>(rank)]; }
  /// The one switch all GPUs hang on by NVLink, or -1.
  int nvswitch() const { return nvswitch_; }
  /// Route between two nodes; GPUs, memories and NICs end routes and never forward.
  const Route& route(int from, int to) const;
  /// How two ranks reach each other's memory.
  PathClass path(int rank_a, int rank_b) const;
  /// NVLink all the way?
  bool nvlink(int rank_a, int rank_b) const;
  /// NVLink between every pair of the first `ranks`.
  bool full_nvlink(int ranks) const;
  /// nvidia-smi's class of a pair: how far apart two ranks are.
  NcclLevel distance(int rank_a, int rank_b) const;
  /// Node index of the nearest switch above a rank (its root when there is none), and of its root complex or socket.
  int switch_of(int rank) const { return switch_[static_cast<std::size_t>(rank)]; }
  int root_of(int rank) const { return root_[static_cast<std::size_t>(rank)]; }

 private:
  void add_links();
  void find_routes();
  Route redirected(int from, int to) const;
  void find_neighbours();
  void require_connected() const;

  FabricSpec spec_;
  std::vector<Link> links_;
  std::vector<std::vector<int>> outgoing_;
  std::vector<int> gpus_;
  std::vector<int> memory_;
  std::vector<int> switch_;
  std::vector<int> root_;
  int nvswitch_ = -1;
  std::vector<Route> routes_;  // node_count squared
  std::vector<PathClass> paths_;
};

/// Throws InputError when a link leads nowhere, a GPU cannot be reached, or the file holds no GPU.
Topology build_topology(const FabricSpec& spec);
int gpu_count(const Topology& topology);

}  // namespace specstep::comm
