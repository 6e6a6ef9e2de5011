// NCCL 2.28.9 on one node. Constants and rules: NVIDIA/nccl@v2.28.9-1 src/graph/tuning.cc, src/include/device.h.
//
//   time    = latency + B / bandwidth
//   latency = base[algorithm][protocol] + steps * hop[hardware][algorithm][protocol]
//             all_reduce: steps = 2 (n - 1), reduce_scatter and all_gather: n - 1; NVLS: one hop, no base
//   NVLS    bus = 2 * efficiency * (channels - 1) * speed: all_reduce pipelines its two halves; bandwidth = as a ring's
//   ring    bus = channels * speed;  LL: min(LL cap, bus / 2)   LL128: min(0.92 bus, channels * cap)   Simple: bus
//           bandwidth = that * n / steps
//   tree    bus = min(0.92 channels * speed, channels * tree cap);  LL: min(bus / 3.8, LL cap)
//           LL128: min(7/9 bus, channels * cap)   Simple: bus;  bandwidth = that / 2 * correction(log2(B / 64))
//   B       all bytes of the result on one rank: all_gather counts what all ranks contribute
// "Hardware" is NVLink only when every hop of the graph is. LL128 is considered on NVLink only.
//
// NCCL has no constants for hops through shared host memory and takes them for PCI; it prefers LL there as well. On two
// H200 with peer access off (measured for specstep: 13.0, 13.9, 21.1, 44.2 us at 14,336, 43,008, 114,688, 458,752 B,
// 273 us at 7 MB) such a hop costs about 2.6 us in LL and the ring carries 28 GB/s, half of it in LL. nccl_cost() uses
// that.
#include "comm/nccl_model.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

namespace specstep::comm {
namespace {

using ByProtocol = std::array<double, 3>;  // LL, LL128, Simple

constexpr ByProtocol tree_base_us{6.8, 14.0, 8.4};
constexpr ByProtocol ring_base_us{6.6, 14.0, 8.4};
constexpr ByProtocol tree_hop_nvlink_us{0.6, 1.25, 4.0};
constexpr ByProtocol tree_hop_pci_us{1.0, 1.9, 4.0};
constexpr ByProtocol ring_hop_nvlink_us{0.6, 1.9, 3.4};
constexpr ByProtocol ring_hop_pci_us{1.0, 2.5, 5.7};
constexpr double nvls_hop_us = 25;

/// Caps of one node in GB/s by generation of GPU.
struct Generation {
  int from_capability;
  double ll;          // in all
  double ring_ll128;  // per channel
  double tree_ll128;  // per channel
  double tree;        // per channel
  double nvls_efficiency;
};
constexpr std::array<Generation, 4> generations{{
    {100, 282.0, 73.4, 55.6, 70.0, 0.74},
    {90, 141.0, 36.7, 36.7, 38.7, 0.85},
    {80, 87.7, 20.0, 20.0, 24.0, 0},
    {0, 39.0, 20.0, 20.0, 26.5, 0},
}};

using Correction = std::array<double, 24>;
constexpr Correction tree_ll{1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1};
constexpr Correction tree_ll128{1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1};
constexpr Correction tree_simple{.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                                 .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9};

const Generation& generation_of(int capability) {
  for (const Generation& g : generations)
    if (capability >= g.from_capability) return g;
  return generations.back();
}

std::size_t at(NcclProtocol p) { return static_cast<std::size_t>(p); }

int steps_of(Collective kind, int ranks) { return kind == Collective::all_reduce ? 2 * (ranks - 1) : ranks - 1; }

double total_bytes(Collective kind, std::int64_t bytes, int ranks) {
  return static_cast<double>(bytes) * (kind == Collective::all_gather ? ranks : 1);
}

double tree_correction(NcclProtocol protocol, double bytes) {
  const auto units = static_cast<std::uint64_t>(bytes) >> 6;
  if (units == 0) return 1;
  const auto index = static_cast<std::size_t>(std::bit_width(units) - 1);
  if (index >= tree_ll.size() - 1) return 1;
  return (protocol == NcclProtocol::ll ? tree_ll : protocol == NcclProtocol::ll128 ? tree_ll128 : tree_simple)[index];
}

/// Bus bandwidth of a ring in GB/s.
double ring_bus(const NcclNode& node, NcclProtocol protocol) {
  const Generation& g = generation_of(node.compute_capability);
  const double bus = node.bus_gb_s();
  if (protocol == NcclProtocol::ll) return std::min(g.ll, bus / 2);
  if (protocol == NcclProtocol::ll128) return std::min(0.92 * bus, node.channels * g.ring_ll128);
  return bus;
}

double tree_bus(const NcclNode& node, NcclProtocol protocol) {
  const Generation& g = generation_of(node.compute_capability);
  const double bus = std::min(0.92 * node.bus_gb_s(), node.channels * g.tree);
  if (protocol == NcclProtocol::ll) return std::min(bus / 3.8, g.ll);
  if (protocol == NcclProtocol::ll128) return std::min(bus * 7 / 9, node.channels * g.tree_ll128);
  return bus;
}

/// LL128 needs 128-byte stores that arrive whole, which NCCL takes for granted on NVLink only.
bool allowed(const NcclNode& node, NcclProtocol protocol) {
  if (node.protocols) return (*node.protocols)[at(protocol)];
  return protocol != NcclProtocol::ll128 || node.nvlink;
}

NcclTime ring_time(const NcclNode& node, Collective kind, double bytes, NcclProtocol protocol) {
  const int steps = steps_of(kind, node.ranks);
  const ByProtocol& hop = node.nvlink ? ring_hop_nvlink_us : ring_hop_pci_us;
  const double gb_s = ring_bus(node, protocol) * node.ranks / steps;
  const double us = ring_base_us[at(protocol)] + steps * hop[at(protocol)] + bytes / (gb_s * 1e3);
  return {NcclAlgorithm::ring, protocol, us * 1e-6, allowed(node, protocol)};
}

NcclTime tree_time(const NcclNode& node, double bytes, NcclProtocol protocol) {
  const int steps = steps_of(Collective::all_reduce, node.ranks);
  const ByProtocol& hop = node.nvlink ? tree_hop_nvlink_us : tree_hop_pci_us;
  const double gb_s = tree_bus(node, protocol) / 2 * tree_correction(protocol, bytes);
  const double us = tree_base_us[at(protocol)] + steps * hop[at(protocol)] + bytes / (gb_s * 1e3);
  return {NcclAlgorithm::tree, protocol, us * 1e-6, allowed(node, protocol)};
}

NcclTime nvls_time(const NcclNode& node, double bytes) {
  const double bus = 2 * nvls_efficiency(node.compute_capability) * (node.channels - 1) * node.channel_gb_s;
  const double gb_s = bus * node.ranks / steps_of(Collective::all_reduce, node.ranks);
  return {NcclAlgorithm::nvls, NcclProtocol::simple, (nvls_hop_us + bytes / (gb_s * 1e3)) * 1e-6,
          node.nvls && allowed(node, NcclProtocol::simple)};
}

}  // namespace

std::optional<NcclTime> nccl_predicts(const NcclNode& node, Collective kind, std::int64_t bytes,
                                      NcclAlgorithm algorithm, NcclProtocol protocol) {
  const double total = total_bytes(kind, bytes, node.ranks);
  if (node.ranks < 2 || kind == Collective::all_to_all) return std::nullopt;
  if (algorithm == NcclAlgorithm::ring) return ring_time(node, kind, total, protocol);
  if (kind != Collective::all_reduce) return std::nullopt;
  if (algorithm == NcclAlgorithm::tree) return tree_time(node, total, protocol);
  const bool can = protocol == NcclProtocol::simple && node.nvlink && node.channels >= 2 &&
                   generation_of(node.compute_capability).nvls_efficiency > 0;
  if (!can) return std::nullopt;
  return nvls_time(node, total);
}

std::vector<NcclTime> nccl_predictions(const NcclNode& node, Collective kind, std::int64_t bytes) {
  std::vector<NcclTime> times;
  for (const auto algorithm : {NcclAlgorithm::ring, NcclAlgorithm::tree, NcclAlgorithm::nvls})
    for (const auto protocol : {NcclProtocol::ll, NcclProtocol::ll128, NcclProtocol::simple})
      if (const auto time = nccl_predicts(node, kind, bytes, algorithm, protocol)) times.push_back(*time);
  return times;
}

NcclTime nccl_choice(const NcclNode& node, Collective kind, std::int64_t bytes) {
  NcclTime best{NcclAlgorithm::ring, NcclProtocol::simple, 0, false};
  for (const NcclTime& time : nccl_predictions(node, kind, bytes))
    if (time.enabled && (!best.enabled || time.seconds < best.seconds)) best = time;
  return best;
}

double nccl_cost(const NcclNode& node, Collective kind, std::int64_t bytes, const NcclTime& choice) {
  if (choice.algorithm == NcclAlgorithm::nvls) return choice.seconds;
  const bool ring_ll = choice.algorithm == NcclAlgorithm::ring && choice.protocol == NcclProtocol::ll;
  const double base = ring_ll && node.ring_ll_base ? *node.ring_ll_base - ring_base_us[at(NcclProtocol::ll)] * 1e-6 : 0;
  if (node.shm_share <= 0) return choice.seconds + base;
  const int steps = steps_of(kind, node.ranks);
  const double extra_hop = node.shm_hop - ring_hop_pci_us[at(NcclProtocol::ll)] * 1e-6;
  NcclNode through = node;
  through.channels = 1;
  through.channel_gb_s = std::min(node.bus_gb_s(), node.shm_bus_gb_s);
  const auto slower = nccl_predicts(through, kind, bytes, choice.algorithm, choice.protocol);
  return slower->seconds + base + steps * node.shm_share * extra_hop;
}

double nvls_efficiency(int compute_capability) { return generation_of(compute_capability).nvls_efficiency; }

std::string nccl_name(const NcclTime& choice) {
  static constexpr std::array<const char*, 3> algorithms{"tree", "ring", "NVLS"};
  static constexpr std::array<const char*, 3> protocols{"LL", "LL128", "Simple"};
  return std::string(algorithms[static_cast<std::size_t>(choice.algorithm)]) + " " + protocols[at(choice.protocol)];
}

}  // namespace specstep::comm
