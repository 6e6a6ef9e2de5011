// What a run may ask of the NCCL library itself.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "model/base/describe.h"

namespace specstep::comm {

/// NCCL's own settings; empty and 0 leave the choice to NCCL. All but the channels are read by NCCL once in a process.
struct NcclSettings {
  std::string algorithm;          // NCCL_ALGO
  std::string protocol;           // NCCL_PROTO: one, or several with commas
  std::string p2p_level;          // NCCL_P2P_LEVEL
  std::int64_t min_channels = 0;  // minCTAs of a communicator's config
  std::int64_t max_channels = 0;  // maxCTAs
  bool nvls = false;              // NCCL_NVLS_ENABLE: multicast through the NVLink switch
  bool operator==(const NcclSettings&) const = default;
};

/// Of NCCL_PROTO, whether LL, LL128 and Simple are in it.
std::array<bool, 3> nccl_protocols(const std::string& list);

void describe(Fields& f, NcclSettings& s);
void check(const NcclSettings& s, Checker& c);

}  // namespace specstep::comm
