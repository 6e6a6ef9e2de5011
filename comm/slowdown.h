// Declared pathologies: the capacities that flows share beyond the links they pass.
#pragma once

#include <string>
#include <vector>

#include "comm/fabric.h"
#include "comm/topology.h"

namespace specstep::comm {

/// A flow between two GPUs as pathologies see it.
struct PeerFlow {
  int source_rank = 0;  // whose memory the bytes leave or whose kernel wrote them
  int target_rank = 0;
  Operation operation = Operation::read;
};

/// A capacity that these flows share because they triggered a slowdown.
struct SharedLimit {
  std::string name;
  double bytes_per_second = 0;
  std::vector<std::size_t> flows;  // indices into the flows given
  const SlowdownSpec* cause = nullptr;
};

std::vector<SharedLimit> slowdowns_of(const Topology& topology, const std::vector<PeerFlow>& flows);

}  // namespace specstep::comm
