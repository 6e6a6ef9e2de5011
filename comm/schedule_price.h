// What a schedule costs on a topology.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "comm/fair_share.h"
#include "comm/schedule.h"
#include "comm/topology.h"

namespace specstep::comm {

/// What a kernel adds to its schedule. As it stands: nothing, as for the kernels of serving engines, which the
/// constants of fabrics describe.
struct KernelCost {
  double fixed = 0;              // seconds beside launch, arrival, flags and reads
  double per_byte = 0;           // seconds for each byte of the message, in memory of the rank's own
  std::optional<double> stage;   // seconds between stages that a barrier parts, instead of the fabric's
  double inbox_passes = 1;       // how often memory moves what lies in an inbox: read; and written, and emptied
  double loads = 0;              // of 16 bytes that a reader keeps in flight to each peer; 0: the fabric's
  double stores_per_second = 0;  // bytes on the wire that a GPU stores to its peers at most; 0: what links give
  bool fitted = false;
};

/// How a schedule is carried out.
struct Carrier {
  Wire wire = Wire::plain;
  double value_bytes = 2;    // of one value, for wires that re-encode
  bool copy_engine = false;  // each transfer is a copy-engine operation instead of loads and stores of a kernel
  bool peers = true;         // ranks access each other's memory; false: they meet in host memory, which nothing stages
  KernelCost kernel{};
};

/// Time is `fixed + per_byte * bytes` of the message.
struct SchedulePrice {
  double fixed = 0;                       // seconds: launch, arrival, flags, round trips
  double per_byte = 0;                    // seconds for each byte of the message
  std::string bottleneck;                 // what holds the bytes back
  bool fitted = false;                    // a fitted constant took part
  bool slowed_by_fit = false;             // and it is one of the capacities
  std::map<LinkKind, double> link_bytes;  // bytes over links of each kind, both directions, per byte of the message
  double busiest_uplink = 0;              // bytes over the busiest direction of a link that no GPU hangs on, per byte
};

/// Flows and capacities of one phase: what the fair sharing works on.
struct PhaseFlows {
  std::vector<double> capacity;    // links first, in the topology's order
  std::vector<std::string> names;  // of the capacities beyond the links
  std::vector<Flow> flows;
  bool fitted = false;
};

/// Ranks 0..n-1 are the first n GPUs. Throws InputError when the topology has fewer.
PhaseFlows phase_flows(const Schedule& schedule, const Phase& phase, const Topology& topology, const Carrier& carrier);
SchedulePrice price_schedule(const Schedule& schedule, const Topology& topology, const Carrier& carrier);

/// One-way flag from one rank to another, and a dependent read of its memory: seconds, idle fabric.
double flag_seconds(const Topology& topology, int from, int to);
double read_seconds(const Topology& topology, int reader, int from);
/// The slowest flag between any two of the first `ranks`.
double slowest_flag_seconds(const Topology& topology, int ranks);

}  // namespace specstep::comm
