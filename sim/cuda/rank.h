// One rank: its device, and the weights and caches of a model on it.
#pragma once

#include <atomic>

#include "sim/cuda/caches.h"
#include "sim/cuda/comms.h"
#include "sim/cuda/gemm.h"
#include "sim/cuda/weights.h"

namespace specstep::cuda {

/// A rank's device with what its target and its draft share there. Made and used with the device current.
class RankDevice {
 public:
  RankDevice(const RunConfig& config, comm::Bootstrap& group, int device);
  int device() const { return device_; }
  /// Makes the device current for the calling thread.
  void enter() const { check(cudaSetDevice(device_), "choosing a device"); }
  cudaStream_t stream() const { return stream_.get(); }
  comm::Bootstrap& group() { return group_; }
  Products& products() { return products_; }
  Comms& comms() { return comms_; }

 private:
  comm::Bootstrap& group_;
  int device_;
  comm::Stream stream_;
  Products products_;
  Comms comms_;
};

/// How a model is held on its ranks.
struct Holding {
  std::uint64_t seed = 1;
  Real real = Real::bf16;
  ParallelLayout layout;
  std::int64_t batch = 1;  // sequences of a run that keeps tokens
  Room room;
  std::int64_t tree_nodes = 0;  // most nodes of a tree that is not committed; 0: drafts are chains
  WeightSharing sharing;
};

/// A target or a draft on one rank.
class Rank {
 public:
  /// All outlive the rank. `rank` is its place among the model's `ranks`.
  Rank(const host::ModelView& model, int rank, int ranks, const Holding& holding, RankDevice& device);

  /// Makes what the plan needs and is not there yet: weights, caches, rotations, ends of its collectives.
  void prepare(const Plan& plan);

  const host::ModelView& model() const { return model_; }
  int rank() const { return rank_; }
  /// Whether other ranks hold parts of this model.
  bool among_others() const { return ranks_ > 1; }
  const Holding& holding() const { return holding_; }
  Real real() const { return holding_.real; }
  RankDevice& device() { return device_; }
  const RankWeights& weights() const { return weights_; }
  RankCaches& caches() { return caches_; }
  const float2* rotations() const { return rotations_.as<float2>(); }
  /// First of `all` sequences that this rank's attention group works on, and how many each group has.
  std::int64_t first_sequence(std::int64_t all) const { return rank_ / holding_.layout.attention_tensor() * each(all); }
  std::int64_t each(std::int64_t all) const {
    return (all + holding_.layout.attention_data - 1) / holding_.layout.attention_data;
  }
  /// Commits nodes of a sequence, if it is one of this rank's; see host::PassModel::keep and clear.
  void keep(std::int64_t sequence, std::int64_t base, const std::vector<int>& nodes);
  void clear(std::int64_t sequence);

 private:
  const host::ModelView& model_;
  int rank_, ranks_;
  Holding holding_;
  RankDevice& device_;
  RankWeights weights_;
  RankCaches caches_;
  DeviceBuffer rotations_;
};

/// Width that rotations of a model turn.
std::int64_t rotated_width(const host::ModelView& model);

}  // namespace specstep::cuda
