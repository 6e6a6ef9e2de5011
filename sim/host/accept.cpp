#include "sim/host/accept.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

namespace specstep::host {

Distribution distribution_of(std::span<const float> logits, double temperature) {
  const double most = *std::max_element(logits.begin(), logits.end());
  Distribution out(logits.size());
  double sum = 0;
  for (std::size_t i = 0; i < out.size(); ++i)
    sum += out[i] = std::exp((static_cast<double>(logits[i]) - most) / temperature);
  for (double& p : out) p /= sum;
  return out;
}

std::int32_t Coins::draw(const Distribution& weights) {
  double left = toss() * std::accumulate(weights.begin(), weights.end(), 0.0);
  std::int32_t last = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] <= 0) continue;
    last = static_cast<std::int32_t>(i);
    left -= weights[i];
    if (left < 0) break;
  }
  return last;  // rounding may leave a rest: it belongs to the last token that can come
}

std::vector<int> DraftTree::children(int node) const {
  std::vector<int> out;
  for (std::size_t i = 1; i < parents.size(); ++i)
    if (parents[i] == node) out.push_back(static_cast<int>(i));
  return out;
}

Verdict accept_greedy(const DraftTree& tree, const std::function<std::int32_t(int)>& best_token) {
  Verdict out{{0}, 0};
  while (true) {
    out.bonus = best_token(out.nodes.back());
    const std::vector<int> next = tree.children(out.nodes.back());
    const auto found = std::find_if(
        next.begin(), next.end(), [&](int child) { return tree.tokens[static_cast<std::size_t>(child)] == out.bonus; });
    if (found == next.end()) return out;
    out.nodes.push_back(*found);
  }
}

Verdict accept_target_only(const DraftTree& tree, const TargetAt& target, Coins& coins) {
  Verdict out{{0}, 0};
  while (true) {
    Distribution left = target(out.nodes.back());
    const double coin = coins.toss();
    double accumulated = 0;
    int taken = -1;
    for (const int child : tree.children(out.nodes.back())) {
      double& chance = left.at(static_cast<std::size_t>(tree.tokens[static_cast<std::size_t>(child)]));
      accumulated += chance;
      if (coin < accumulated) {
        taken = child;
        break;
      }
      chance = 0;
    }
    if (taken < 0) {
      out.bonus = coins.draw(left);
      return out;
    }
    out.nodes.push_back(taken);
  }
}

Verdict accept_rejection(const DraftTree& chain, const TargetAt& target, Coins& coins) {
  Verdict out{{0}, 0};
  while (true) {
    Distribution p = target(out.nodes.back());
    const std::size_t next = out.nodes.size();
    if (next == chain.tokens.size()) {
      out.bonus = coins.draw(p);
      return out;
    }
    if (chain.parents[next] != static_cast<int>(next) - 1) throw std::logic_error("rejection sampling needs a chain");
    const Distribution& q = chain.drawn_from.at(next);
    const auto token = static_cast<std::size_t>(chain.tokens[next]);
    if (coins.toss() * q.at(token) >= p.at(token)) {
      for (std::size_t i = 0; i < p.size(); ++i) p[i] = std::max(p[i] - q[i], 0.0);
      out.bonus = coins.draw(p);
      return out;
    }
    out.nodes.push_back(static_cast<int>(next));
  }
}

}  // namespace specstep::host
