// What a run needs of this host's memory, and what is there.
#pragma once

#include "sim/config.h"

namespace specstep::host {

/// Bytes of all ranks together. Everything is held as fp32, whatever format it is rounded to.
struct MemoryNeed {
  double weights = 0;
  double caches = 0;
  double activations = 0;
  double total() const { return weights + caches + activations; }
};
MemoryNeed memory_need(const RunConfig& config);

/// Bytes this process may still take: free memory of the host, and of its control group where one limits it.
double memory_available();

/// Throws InputError that names what needs how much and what would fit.
void require_memory(const RunConfig& config, double available);

}  // namespace specstep::host
