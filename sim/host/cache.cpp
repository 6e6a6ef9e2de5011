#include "sim/host/cache.h"

#include <algorithm>

namespace specstep::host {

std::int64_t Nodes::position(std::size_t node) const {
  std::int64_t out = base;
  for (int at = parent[node]; at >= 0; at = parent[static_cast<std::size_t>(at)]) ++out;
  return out;
}

std::vector<std::int64_t> Nodes::visible(std::size_t node) const {
  std::vector<std::int64_t> out;
  for (int at = static_cast<int>(node); at >= 0; at = parent[static_cast<std::size_t>(at)]) out.push_back(base + at);
  for (std::int64_t slot = base; slot-- > 0;) out.push_back(slot);
  std::reverse(out.begin(), out.end());
  return out;
}

Nodes chain_nodes(std::int64_t base, std::size_t count) {
  Nodes out{base, {}, 0};
  for (std::size_t i = 0; i < count; ++i) out.parent.push_back(static_cast<int>(i) - 1);
  return out;
}

void grow(Matrix& m, std::int64_t rows, std::int64_t cols) {
  if (m.rows() >= rows && m.cols() == cols) return;
  const std::int64_t capacity = std::max(rows, std::min(2 * rows, m.rows() + m.rows() / 2 + 64));
  m.conservativeResize(capacity, cols);
}

RankCache::RankCache(std::size_t layers, std::size_t sequences) : sequences_(sequences), caches_(layers * sequences) {}

LayerCache& RankCache::at(std::int64_t layer, std::size_t sequence) {
  return caches_.at(static_cast<std::size_t>(layer) * sequences_ + sequence);
}

void RankCache::keep(std::size_t sequence, std::int64_t base, const std::vector<int>& nodes) {
  for (std::size_t i = sequence; i < caches_.size(); i += sequences_) {
    LayerCache& cache = caches_[i];
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      const std::int64_t from = base + nodes[k];
      const std::int64_t to = base + static_cast<std::int64_t>(k);
      if (from == to) continue;
      if (cache.kv.rows() > from) cache.kv.row(to) = cache.kv.row(from);
      if (cache.index.rows() > from) cache.index.row(to) = cache.index.row(from);
    }
    if (!cache.after.empty() && !nodes.empty()) cache.state = cache.after.at(static_cast<std::size_t>(nodes.back()));
    cache.after.clear();
  }
}

void RankCache::clear(std::size_t sequence) {
  for (std::size_t i = sequence; i < caches_.size(); i += sequences_) caches_[i] = {};
}

}  // namespace specstep::host
