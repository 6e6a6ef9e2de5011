// What one rank remembers of the sequences: paged keys and values, index keys, states of linear attention.
#pragma once

#include <map>

#include "model/plan.h"
#include "sim/cuda/buffers.h"
#include "sim/cuda/check.h"
#include "sim/cuda/kernels/attention.h"
#include "sim/host/types.h"

namespace specstep::cuda {

/// What the passes of a run need room for, on one rank.
struct Room {
  std::int64_t sequences = 1;  // of this rank: those of its attention group
  std::int64_t tokens = 1;     // of a sequence, drafts that are not committed included
  std::int64_t nodes = 1;      // of a sequence that may be uncommitted at once, prompts aside
  bool keeps = false;          // tokens are committed: states are kept behind each node
  /// Pages and slots of a sequence.
  std::int64_t pages() const { return (tokens + page_tokens - 1) / page_tokens; }
  std::int64_t slots() const { return pages() * page_tokens; }
};

class RankCaches {
 public:
  RankCaches(const Room& room, Real real)
      : room_(room), real_(real), remembered_(static_cast<std::size_t>(room.sequences), false) {}

  /// Makes the caches of the plan's layers that are not there yet. Throws Unsupported for a type of cached values that
  /// the kernels do not keep.
  void add(const Plan& plan);
  Cache kv(std::int32_t layer) const { return layers_.at(layer).kv; }
  Cache index(std::int32_t layer) const { return layers_.at(layer).index; }
  /// Committed states of a linear layer, [sequences]; states behind the tokens of a pass; then those kept behind each
  /// node of each sequence.
  float* state(std::int32_t layer) const { return layers_.at(layer).state.as<float>(); }
  float* after(std::int32_t layer) const;
  /// Place of a node's kept state, counted from `after` on.
  std::int64_t kept(std::int64_t sequence, std::int64_t node) const {
    return pass_tokens() + sequence * room_.nodes + node;
  }
  const Room& room() const { return room_; }
  const std::int32_t* pages() const { return pages_.as<std::int32_t>(); }
  std::int64_t pages_each() const { return room_.pages(); }

  /// Keeps the states behind `count` tokens of a pass, from row `row` on, as those of the nodes from `first` on.
  void remember(std::int64_t sequence, std::int64_t row, std::int64_t first, std::int64_t count, cudaStream_t stream);
  /// As host::RankCache::keep and clear.
  void keep(std::int64_t sequence, std::int64_t base, const std::vector<int>& nodes, cudaStream_t stream);
  void clear(std::int64_t sequence, cudaStream_t stream);
  void clear_all(cudaStream_t stream);

  /// Device bytes that a plan's caches take.
  static std::int64_t bytes(const Plan& plan, const Room& room, Real real);

 private:
  struct Layer {
    DeviceBuffer kv_memory, index_memory, state, after;
    Cache kv, index;
    std::int64_t state_values = 0;
  };
  std::int64_t pass_tokens() const { return room_.sequences * room_.nodes; }
  void move_row(const Cache& cache, std::int64_t sequence, std::int64_t from, std::int64_t to, cudaStream_t stream);

  Room room_;
  Real real_;
  std::vector<bool> remembered_;  // sequences with states of nodes that are not committed
  DeviceBuffer pages_;
  std::map<std::int32_t, Layer> layers_;
  DeviceBuffer shared_after_;  // where nothing is kept, layers share the states of a pass
};

}  // namespace specstep::cuda
