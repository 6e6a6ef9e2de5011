// What a run needs of a device's memory, counted before anything is allocated.
#pragma once

#include "sim/cuda/rank.h"

namespace specstep::cuda {

/// Bytes on one GPU.
struct MemoryNeed {
  double weights = 0;
  double caches = 0;
  double passes = 0;  // buffers of the largest pass, or of all where a run that generates keeps them
  double fixed = 0;   // work areas of libraries and backends, graphs
  double total() const { return weights + caches + passes + fixed; }
};

/// How a run is held on a device: room for its longest texts, its largest padded batch, its trees.
Holding holding_of(const RunConfig& config);

MemoryNeed memory_need(const RunConfig& config, const WeightSharing& sharing);

/// The sharing with which the weights fit into `available` bytes, and below measure.cuda.weight_pool_gib. Throws
/// InputError that names what needs how much and what would fit, where sharing is not allowed (real tokens) or does not
/// help. A pool stays larger than twice the cache of the device, so that weights come from memory.
WeightSharing fit(const RunConfig& config, double available, double cache_bytes);

/// Plans of a run's passes, the largest of each kind.
std::vector<Plan> plans_of(const RunConfig& config);

}  // namespace specstep::cuda
