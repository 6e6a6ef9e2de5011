#include "model/acceptance_tree.h"

#include <algorithm>

namespace specstep {

std::vector<double> tree_survival(const std::vector<double>& ranks, const DraftTree& tree) {
  struct Node {
    std::size_t depth;
    double score;
  };
  const auto better = [](const Node& a, const Node& b) { return a.score > b.score; };
  const auto width = static_cast<std::size_t>(tree.topk);
  std::vector<Node> all;
  std::vector<Node> frontier{{0, 1.0}};
  for (std::int64_t step = 0; step < tree.steps; ++step) {
    std::vector<Node> grown;
    for (const Node& node : frontier)
      for (std::size_t guess = 0; guess < std::min(width, ranks.size()); ++guess)
        grown.push_back({node.depth + 1, node.score * ranks[guess]});
    all.insert(all.end(), grown.begin(), grown.end());
    std::stable_sort(grown.begin(), grown.end(), better);
    grown.resize(std::min(width, grown.size()));
    frontier = std::move(grown);
  }
  std::stable_sort(all.begin(), all.end(), better);  // a parent is never behind its child
  all.resize(std::min(static_cast<std::size_t>(tree.verify_tokens - 1), all.size()));
  std::vector<double> survival(static_cast<std::size_t>(tree.steps));
  for (const Node& node : all) survival[node.depth - 1] += node.score;
  return survival;
}

}  // namespace specstep
