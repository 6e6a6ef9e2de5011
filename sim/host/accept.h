// Acceptance: which drafted tokens the target keeps, and the token it adds.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "sim/host/philox.h"

namespace specstep::host {

using Distribution = std::vector<double>;

/// softmax(logits / temperature); temperature above 0.
Distribution distribution_of(std::span<const float> logits, double temperature);

/// Coins of one sequence: a Philox stream of its own.
class Coins {
 public:
  Coins(std::uint64_t seed, std::uint32_t sequence) : key_(philox_key(seed)), sequence_(sequence) {}
  /// Uniform in [0, 1).
  double toss() { return unit(philox({draws_++, sequence_, 0, coin_stream}, key_)); }
  /// A token of a distribution, which need not sum to one.
  std::int32_t draw(const Distribution& weights);

 private:
  static constexpr std::uint32_t coin_stream = 0x7FFFFFFF;  // no layer of a model has this name
  PhiloxKey key_;
  std::uint32_t sequence_;
  std::uint32_t draws_ = 0;
};

/// What a verify pass checks. Node 0 is the root: the last token that is certain. Parents come before children.
struct DraftTree {
  std::vector<std::int32_t> tokens;
  std::vector<int> parents;              // -1 for the root
  std::vector<Distribution> drawn_from;  // of each node, when drafts were drawn at random; empty for the root

  std::vector<int> children(int node) const;
};

struct Verdict {
  std::vector<int> nodes;  // kept, from the root on
  std::int32_t bonus = 0;  // the target's own token behind them
  std::size_t accepted() const { return nodes.size() - 1; }
};

/// Follows the child that is the target's best token, as long as there is one.
Verdict accept_greedy(const DraftTree& tree, const std::function<std::int32_t(int)>& best_token);

/// The target's distribution behind a node.
using TargetAt = std::function<Distribution(int)>;

/// Target-only sampling: one coin a level against the accumulated chance of the siblings; the bonus comes from what is
/// left of the target's distribution when the tried tokens are taken out.
Verdict accept_target_only(const DraftTree& tree, const TargetAt& target, Coins& coins);

/// Rejection sampling of a chain: draft x is kept with min(1, p(x) / q(x)); after the first rejection the bonus comes
/// from max(p - q, 0).
Verdict accept_rejection(const DraftTree& chain, const TargetAt& target, Coins& coins);

}  // namespace specstep::host
