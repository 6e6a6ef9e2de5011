// Weights from a seed: every rank makes its own part, and the parts of any layout are cut from the same model.
#pragma once

#include <map>
#include <utility>

#include "sim/host/shard.h"

namespace specstep::host {

/// Where the numbers of a weight come from: its stream among all of the model, and the largest value of the uniform
/// distribution. Gains (cols 1) are 1 + 0.1 u.
struct WeightSource {
  std::uint32_t stream = 0;
  float bound = 1;
  bool gain = false;
};
WeightSource source_of(const Weight& weight, const Cut& cut, const ModelView& model);

/// `count` matrices [rows, cols]; values rounded to their format.
using StoredWeight = std::vector<Matrix>;

/// The part of a weight that `rank` holds. Element (matrix, row, column) of the whole comes from the Philox counter
/// (column / 4, row, matrix, layer and kind) under the seed's key: uniform with variance 1 / columns, so that products
/// of normed rows stay O(1); embedding rows have variance 1 unless tied; gains are 0.9 to 1.1.
StoredWeight make_weight(const Plan& plan, const Weight& weight, int rank, const ModelView& model, std::uint64_t seed);

/// All weights of one rank that the plans seen so far need, made once.
class RankWeights {
 public:
  RankWeights(const ModelView& model, int rank, std::uint64_t seed) : model_(model), rank_(rank), seed_(seed) {}
  /// Makes what the plan needs and is not there yet.
  void add(const Plan& plan);
  const StoredWeight& at(std::int32_t layer, StepKind kind) const { return weights_.at({layer, kind}); }

 private:
  const ModelView& model_;
  int rank_;
  std::uint64_t seed_;
  std::map<std::pair<std::int32_t, StepKind>, StoredWeight> weights_;
};

}  // namespace specstep::host
