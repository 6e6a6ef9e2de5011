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

/// Expected distinct experts of `experts` that `sequences` texts of `tokens_each` consecutive tokens meet.
/// One token meets top_k. Texts are independent: E(1 - (1 - d/E)^sequences), d = what one text meets.
/// Within a text each token repeats a share `overlap` of its predecessor's experts, so q tokens count as
/// 1 + (q - 1)(1 - overlap) independent ones: d = E(1 - (1 - top_k/E)^that). With overlap 0 this is
/// E(1 - (1 - top_k/E)^M) over all M tokens.
double expected_experts(std::int64_t experts, std::int64_t top_k, std::int64_t sequences, std::int64_t tokens_each,
                        double overlap);

}  // namespace specstep
