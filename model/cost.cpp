// Flops and bytes of each operation.
#include "model/cost.h"

#include <algorithm>
#include <cmath>

namespace specstep {

Cost& Cost::operator+=(const Cost& other) {
  flops += other.flops;
  weight_bytes += other.weight_bytes;
  kv_bytes += other.kv_bytes;
  activation_bytes += other.activation_bytes;
  comm_bytes += other.comm_bytes;
  nodes += other.nodes;
  return *this;
}

double tokens_seen(std::int64_t context, std::int64_t queries, std::int64_t limit) {
  if (queries <= 0) return 0;
  const auto c = static_cast<double>(context);
  const auto q = static_cast<double>(queries);
  if (limit <= 0) return c + (q + 1) / 2;
  const auto l = static_cast<double>(limit);
  const double growing = std::clamp(l - c, 0.0, q);  // queries that still see fewer than the limit
  return (growing * c + growing * (growing + 1) / 2 + (q - growing) * l) / q;
}

namespace {

constexpr double activation_size = 2;  // bytes of a bf16 value, which all activations are

double real(std::int64_t value) { return static_cast<double>(value); }

struct Coster {
  Cost of(const Gemm& g) const {
    const double weights = real(g.n) * real(g.k) * real(g.batches);
    return {.flops = 2 * real(g.m) * weights,
            .weight_bytes = weights * g.format.bytes_per_value(),
            .activation_bytes = activation_size * real(g.batches) * real(g.m) * (real(g.n) + real(g.k)),
            .nodes = 1};
  }
  Cost of(const GroupedGemm& g) const {
    return {.flops = 2 * g.rows * real(g.n) * real(g.k),
            .weight_bytes = g.experts_met * real(g.n) * real(g.k) * g.format.bytes_per_value(),
            .activation_bytes = activation_size * g.rows * (real(g.n) + real(g.k)),
            .nodes = 1};
  }
  Cost of(const Attention& a) const {
    const double seen = tokens_seen(a.context, a.queries, a.limit) / real(a.context_ranks);
    const double last =
        a.limit > 0 ? std::min(real(a.limit), real(a.context + a.queries)) : real(a.context + a.queries);
    const double each = a.queries_share_kv ? last / real(a.context_ranks) : seen * real(a.queries);
    // What sequences share is read once: their blocks run side by side over the same rows.
    const double common = std::min(each, real(a.shared) / real(a.context_ranks));
    const double cached = real(a.sequences - a.padding);
    const double own = each - common * (a.queries_share_kv ? 1 : real(a.queries));
    const double rows_read = cached > 0 ? cached * own + common : 0;
    const double sums = a.context_ranks > 1 ? 4 * real(a.sequences) * real(a.queries) * real(a.heads) : 0;
    return {.flops = 2 * cached * real(a.queries) * seen * real(a.heads) * real(a.score_dim + a.value_dim),
            .kv_bytes = rows_read * real(a.cached_values) * bytes_of(a.kv),
            .activation_bytes = activation_size * real(a.sequences) * real(a.queries) * real(a.heads) *
                                    real(a.score_dim + a.value_dim) +
                                sums,  // of a part of the cache also the log of its sum, in f32
            .nodes = 2};               // split over the cache, then combined
  }
  Cost of(const AttentionJoin& j) const {
    const double values = real(j.tokens) * real(j.heads) * real(j.value_dim);
    return {.flops = 2 * values,
            .activation_bytes = 2 * activation_size * values + 4 * real(j.tokens) * real(j.heads) * real(j.ranks),
            .nodes = 1};
  }
  Cost of(const SparseIndex& s) const {
    const double seen = tokens_seen(s.context, s.queries, 0);
    const double rows_read = s.queries_share_kv ? real(s.context + s.queries) : seen * real(s.queries);
    const double cached = real(s.sequences - s.padding);
    return {.flops = 2 * cached * real(s.queries) * seen * real(s.heads) * real(s.dim),
            .kv_bytes = cached * rows_read * real(s.dim) * bytes_of(s.dtype),
            .activation_bytes = real(s.sequences) * real(s.queries) * (real(s.heads) * real(s.dim) + 4 * real(s.top_k)),
            .nodes = 2};  // scores, then top-k
  }
  Cost of(const LinearAttention& l) const {
    const double steps = real(l.sequences) * real(l.tokens_each);
    return {.flops = 6 * steps * real(l.value_heads) * real(l.key_dim) * real(l.value_dim),  // decay, update, read-out
            .kv_bytes = 2 * real(l.sequences - l.padding) * real(l.state_bytes),
            .activation_bytes = activation_size * steps * real(l.value_heads) * real(l.key_dim + 2 * l.value_dim),
            .nodes = 2};  // short convolution, recurrence
  }
  Cost of(const AllReduce& a) const { return collective(a.bytes(), a.ranks); }
  Cost of(const AllGather& a) const { return collective(a.bytes(), a.ranks); }
  Cost of(const ReduceScatter& a) const { return collective(a.bytes(), a.ranks); }
  Cost of(const AllToAll& a) const { return collective(a.bytes(), a.ranks); }
  Cost of(const RmsNorm& r) const {
    const double values = real(r.rows) * real(r.width);
    return {.flops = 4 * values, .activation_bytes = activation_size * values * (r.residual ? 4 : 2), .nodes = 1};
  }
  /// The norm takes the sum from registers: one trip of the hidden vector to memory and one kernel fewer.
  Cost of(const AllReduceNorm& a) const {
    Cost cost = of(a.norm);
    cost.activation_bytes -= activation_size * real(a.norm.rows) * real(a.norm.width);
    cost.comm_bytes = of(a.sum).comm_bytes;
    return cost;
  }
  Cost of(const Activation& a) const {
    const double values = real(a.rows) * real(a.width);
    return {.flops = 4 * values, .activation_bytes = 3 * activation_size * values, .nodes = 1};
  }
  Cost of(const Rope& r) const {
    const double values = real(r.tokens) * real(r.rotated_values);
    return {.flops = 3 * values,
            .kv_bytes = real(r.tokens - r.padding) * r.append_bytes,
            .activation_bytes = 2 * activation_size * values,
            .nodes = 1};
  }
  Cost of(const Router& r) const {
    return {.flops = 2 * real(r.tokens) * real(r.experts),
            .activation_bytes = real(r.tokens) * (4 * real(r.experts) + 8 * real(r.top_k)),
            .nodes = 2};  // top-k, then the sort of tokens by expert
  }
  Cost of(const Combine& c) const {
    const double values = real(c.tokens) * real(c.hidden);
    return {.flops = values * (2 * real(c.top_k) + (c.shared ? 1 : 0)),
            .activation_bytes = activation_size * values * (real(c.top_k) + 1 + (c.shared ? 1 : 0)),
            .nodes = 1};
  }
  Cost of(const Embed& e) const {
    const double values = real(e.tokens) * real(e.hidden);
    return {
        .weight_bytes = values * e.format.bytes_per_value(), .activation_bytes = activation_size * values, .nodes = 1};
  }
  Cost of(const Sample& s) const {
    const double values = real(s.rows) * real(s.vocab);
    return {.flops = 4 * values, .activation_bytes = activation_size * values, .nodes = 1};
  }

  static Cost collective(std::int64_t bytes, std::int64_t ranks) {
    return {.comm_bytes = static_cast<double>(bytes), .nodes = ranks > 1 ? 1.0 : 0.0};
  }
};

}  // namespace

Cost cost_of(const Op& op) {
  return std::visit([](const auto& o) { return Coster{}.of(o); }, op);
}

}  // namespace specstep
