#include "sim/host/grower.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/host/kernels.h"

namespace specstep::host {

void Grower::start(std::int32_t root) {
  root_ = root;
  nodes_.clear();
  frontier_.clear();
}

void Grower::grow(std::span<const std::span<const float>> logits, std::span<const std::int32_t> token_of) {
  std::vector<int> parents = frontier_;
  if (parents.empty()) parents.push_back(-1);
  std::vector<int> fresh;
  for (std::size_t i = 0; i < parents.size(); ++i) {
    const Distribution chance = distribution_of(logits[i], 1);
    const double before = parents[i] < 0 ? 0 : nodes_[static_cast<std::size_t>(parents[i])].score;
    for (const std::int64_t column : largest(logits[i], static_cast<std::size_t>(width_))) {
      const auto c = static_cast<std::size_t>(column);
      fresh.push_back(static_cast<int>(nodes_.size()));
      nodes_.push_back({token_of[c], parents[i], before + std::log(chance[c]), {}});
    }
  }
  const auto better = [this](int a, int b) {
    return nodes_[static_cast<std::size_t>(a)].score > nodes_[static_cast<std::size_t>(b)].score;
  };
  std::stable_sort(fresh.begin(), fresh.end(), better);
  fresh.resize(std::min(fresh.size(), static_cast<std::size_t>(width_)));
  std::sort(fresh.begin(), fresh.end());
  frontier_ = std::move(fresh);
}

void Grower::draw(std::span<const float> logits, std::span<const std::int32_t> token_of, double temperature,
                  std::size_t target_vocab, Coins& coins) {
  const Distribution own = distribution_of(logits, temperature);
  const auto column = static_cast<std::size_t>(coins.draw(own));
  append(token_of[column]);
  Distribution& q = nodes_.back().drawn_from;
  q.assign(target_vocab, 0);
  for (std::size_t c = 0; c < own.size(); ++c) q[static_cast<std::size_t>(token_of[c])] += own[c];
}

void Grower::append(std::int32_t token) {
  nodes_.push_back({token, static_cast<int>(nodes_.size()) - 1, 0, {}});
  frontier_ = {static_cast<int>(nodes_.size()) - 1};
}

DraftTree Grower::finish() const {
  std::vector<int> order(nodes_.size());
  std::iota(order.begin(), order.end(), 0);
  // A child never scores above its parent and comes later, so a stable sort keeps every chosen node's parents.
  std::stable_sort(order.begin(), order.end(), [this](int a, int b) {
    return nodes_[static_cast<std::size_t>(a)].score > nodes_[static_cast<std::size_t>(b)].score;
  });
  order.resize(std::min(order.size(), static_cast<std::size_t>(verify_tokens_ - 1)));
  std::sort(order.begin(), order.end());
  DraftTree tree{{root_}, {-1}, {{}}};
  std::vector<int> place(nodes_.size(), 0);
  for (const int n : order) {
    const Node& node = nodes_[static_cast<std::size_t>(n)];
    place[static_cast<std::size_t>(n)] = static_cast<int>(tree.tokens.size());
    tree.tokens.push_back(node.token);
    tree.parents.push_back(node.parent < 0 ? 0 : place[static_cast<std::size_t>(node.parent)]);
    tree.drawn_from.push_back(node.drawn_from);
  }
  return tree;
}

}  // namespace specstep::host
