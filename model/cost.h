// Work of an operation: the only source of flops and bytes, for pricing, for reports, and for GB/s of measurements.
#pragma once

#include "model/op.h"

namespace specstep {

/// Work of one rank. Bytes of different origin are kept apart and add up.
struct Cost {
  double flops = 0;
  double weight_bytes = 0;
  double kv_bytes = 0;          // caches and states, read and written
  double activation_bytes = 0;  // everything else that is read or written
  double comm_bytes = 0;        // payload of a collective; not memory traffic
  double nodes = 0;             // kernels launched
  double bytes() const { return weight_bytes + kv_bytes + activation_bytes; }
  Cost& operator+=(const Cost& other);
};

Cost cost_of(const Op& op);

/// Tokens a query sees on average: causal within the new tokens, capped by `limit` (0 = none).
/// Mean over i = 1..queries of min(limit, context + i).
double tokens_seen(std::int64_t context, std::int64_t queries, std::int64_t limit);

}  // namespace specstep
