// NCCL's own cost model: what it believes a collective costs, and what it therefore chooses.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/schedule.h"

namespace specstep::comm {

enum class NcclAlgorithm { tree, ring, nvls };
enum class NcclProtocol { ll, ll128, simple };

/// What NCCL's search found on one node.
struct NcclNode {
  int ranks = 2;
  bool nvlink = false;          // every hop of its graph is NVLink; all else counts as PCI
  int compute_capability = 90;  // smallest of the GPUs
  int channels = 2;
  double channel_gb_s = 24;
  bool nvls = false;
  /// NCCL_PROTO: LL, LL128, Simple allowed, LL128 then without NVLink too; nothing: NCCL's own rule.
  std::optional<std::array<bool, 3>> protocols;
  /// Latency in seconds and bus bandwidth in GB/s of the path its rings really take, where hops go through shared host
  /// memory. NCCL does not know these: they enter the price and not the choice.
  double shm_share = 0;  // of the hops
  double shm_hop = 0;
  double shm_bus_gb_s = 0;
  /// Seconds that a ring in LL takes beside hops and bytes on this host. It enters the price and not the choice either.
  std::optional<double> ring_ll_base;

  double bus_gb_s() const { return channels * channel_gb_s; }
};

struct NcclTime {
  NcclAlgorithm algorithm = NcclAlgorithm::ring;
  NcclProtocol protocol = NcclProtocol::ll;
  double seconds = 0;
  bool enabled = true;  // NCCL would consider it without environment variables
};

/// NCCL's prediction for one algorithm and protocol, or nothing where it has none. `bytes` as in Call.
std::optional<NcclTime> nccl_predicts(const NcclNode& node, Collective kind, std::int64_t bytes,
                                      NcclAlgorithm algorithm, NcclProtocol protocol);
/// All of them.
std::vector<NcclTime> nccl_predictions(const NcclNode& node, Collective kind, std::int64_t bytes);
/// What NCCL takes: its cheapest enabled prediction.
NcclTime nccl_choice(const NcclNode& node, Collective kind, std::int64_t bytes);
/// What a choice costs on the real path, with hops through shared host memory at their own speed and the measured base.
double nccl_cost(const NcclNode& node, Collective kind, std::int64_t bytes, const NcclTime& choice);

/// What of a link NCCL gives the switch that reduces, by its constants for this GPU; 0 where it knows no such switch.
double nvls_efficiency(int compute_capability);

std::string nccl_name(const NcclTime& choice);  // "ring LL"

}  // namespace specstep::comm
