// Grows the drafts of one sequence step by step: a chain is a tree of width one.
#pragma once

#include <span>

#include "sim/host/accept.h"

namespace specstep::host {

class Grower {
 public:
  /// `verify_tokens`: nodes of the finished tree, root included.
  Grower(std::int64_t width, std::int64_t verify_tokens) : width_(width), verify_tokens_(verify_tokens) {}

  /// A candidate: its token, the candidate it follows (-1: the root), log of its accumulated probability.
  struct Node {
    std::int32_t token = 0;
    int parent = -1;
    double score = 0;
    Distribution drawn_from;  // when drawn at random
  };

  /// Begins a new tree behind `root`.
  void start(std::int32_t root);
  /// The best `width` tokens behind the root, or behind each node of the frontier; the best `width` of all become the
  /// new frontier. One row of logits for the root, else one for each frontier node. `token_of` maps a column to a
  /// token.
  void grow(std::span<const std::span<const float>> logits, std::span<const std::int32_t> token_of);
  /// Instead, for a chain: one token drawn at random.
  void draw(std::span<const float> logits, std::span<const std::int32_t> token_of, double temperature,
            std::size_t target_vocab, Coins& coins);
  /// Instead, for a chain without a model: a given token.
  void append(std::int32_t token);

  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<int>& frontier() const { return frontier_; }
  /// The best nodes, with the root.
  DraftTree finish() const;

 private:
  std::int64_t width_;
  std::int64_t verify_tokens_;
  std::int32_t root_ = 0;
  std::vector<Node> nodes_;
  std::vector<int> frontier_;
};

}  // namespace specstep::host
