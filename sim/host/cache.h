// What one rank remembers of the sequences: keys and values, index keys, states of linear attention.
#pragma once

#include "sim/host/types.h"

namespace specstep::host {

/// One layer of one sequence. Row i of `kv` and `index` is slot i: committed tokens first, then the nodes of a pass
/// that are not committed yet.
struct LayerCache {
  Matrix kv;                  // [capacity, cached values]
  Matrix index;               // [capacity, index_dim], sparse layers
  Matrix state;               // [value heads x key_dim, value_dim], linear layers: after the committed tokens
  std::vector<Matrix> after;  // linear layers: the state after each uncommitted node
};

/// Tokens of a sequence that a pass works on. Nodes are counted from the committed tokens on; those before `first`
/// are of earlier passes and still uncommitted.
struct Nodes {
  std::int64_t base = 0;    // committed tokens
  std::vector<int> parent;  // of each node; -1: follows the committed tokens
  std::size_t first = 0;    // the pass computes nodes from here on
  std::size_t count() const { return parent.size() - first; }
  /// Position of a node in its text.
  std::int64_t position(std::size_t node) const;
  /// Slots that a node sees: the committed ones, its ancestors, itself; ascending.
  std::vector<std::int64_t> visible(std::size_t node) const;
};

/// A text whose nodes follow one another.
Nodes chain_nodes(std::int64_t base, std::size_t count);

class RankCache {
 public:
  RankCache(std::size_t layers, std::size_t sequences);
  LayerCache& at(std::int64_t layer, std::size_t sequence);
  /// Commits nodes (ascending, each the child of the one before) of a sequence: they become its next tokens.
  void keep(std::size_t sequence, std::int64_t base, const std::vector<int>& nodes);
  /// Forgets a sequence.
  void clear(std::size_t sequence);
  std::size_t sequences() const { return sequences_; }

 private:
  std::size_t sequences_;
  std::vector<LayerCache> caches_;  // layer by layer
};

/// Makes room for `rows` rows of `cols` values, keeping what is there.
void grow(Matrix& m, std::int64_t rows, std::int64_t cols);

}  // namespace specstep::host
