// What tests share: installed fabrics, and small ones written in place.
#pragma once

#include <string>

#include "comm/topology.h"
#include "model/base/config_io.h"

namespace specstep::comm {

inline FabricSpec fabric_file(const std::string& name) {
  return load_config<FabricSpec>(std::string(SPECSTEP_SOURCE_DIR) + "/configs/fabrics/" + name + ".yaml");
}

inline Topology fabric(const std::string& name) { return build_topology(fabric_file(name)); }

/// GPUs and NCCL of a test fabric: round numbers, so that expectations are arithmetic.
inline const std::string test_ends = R"(
gpu: {flag_us: 0.5, read_us: 0.6, arrival_us: 0, stage_us: 2, graph_node_us: 1, eager_launch_us: 4, blocks: 1000, threads: 1024,
      read_tags: 0, read_request_bytes: 128, reduce_gb_s: 1000000}
nccl: {compute_capability: 120, eager_us: 13, shm_hop_us: 2.6, shm_bus_gb_s: 28,
       graphs: [{ranks: 16, channels: 2, channel_gb_s: 24}]}
)";

inline Topology fabric_text(const std::string& text) {
  return build_topology(read_config<FabricSpec>(yaml::parse(text + test_ends, "f.yaml")));
}

/// Two switches of `each` GPUs, joined by one uplink; all links 10 GB/s and 0.25 us.
inline std::string two_switches(int each) {
  std::string nodes = "nodes: [{id: s0, kind: pcie_switch}, {id: s1, kind: pcie_switch}";
  std::string links = "links: [{a: s0, b: s1, type: x}";
  for (int i = 0; i < 2 * each; ++i) {
    const std::string gpu = "g" + std::to_string(i);
    nodes += ", {id: " + gpu + ", kind: gpu}";
    links += ", {a: " + gpu + ", b: s" + std::to_string(i / each) + ", type: x}";
  }
  return nodes + "]\nlink_types: {x: {bandwidth_gb_s: 10, latency_us: 0.25}}\n" + links + "]\n";
}

template <class F>
std::string refusal_of(F&& f) {
  try {
    f();
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace specstep::comm
