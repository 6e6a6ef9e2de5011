// Weights of a rank in device memory: the numbers of sim/host/weights, made on the device.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "sim/cuda/buffers.h"
#include "sim/cuda/check.h"
#include "sim/cuda/kernels/stored.h"
#include "sim/host/weights.h"

namespace specstep::cuda {

/// How a weight lies on the device: f32 holds everything as floats; bf16 keeps the stack's format, but for matrices
/// that engines unpack when they load a model as well: absorbed products, and embeddings in fewer than 16 bits.
WeightFormat device_format(const Weight& weight, Real real);

/// Which layers have weights of their own. Where not all fit, layers in turn share the first `slots` of the weights of
/// the same kind and shape.
class WeightSharing {
 public:
  /// Keeps `share` (above 0, at most 1) of the layers.
  explicit WeightSharing(double share = 1) : share_(share) {}
  bool shared() const { return share_ < 1; }
  double share() const { return share_; }
  /// Layer whose weight stands for this one of the plan, at least one of each kind.
  std::int32_t layer_of(const Plan& plan, const Weight& weight) const;
  /// Device bytes of the plan's weights on one rank.
  std::int64_t bytes(const Plan& plan, Real real) const;

 private:
  double share_;
};

class RankWeights {
 public:
  /// All outlive the weights.
  RankWeights(const host::ModelView& model, int rank, std::uint64_t seed, Real real, WeightSharing sharing);
  /// Makes what the plan needs and is not there yet.
  void add(const Plan& plan, cudaStream_t stream);
  const StoredMatrix& at(std::int32_t layer, StepKind kind) const;
  std::int64_t bytes() const { return bytes_; }

 private:
  struct Held {
    DeviceBuffer memory;
    StoredMatrix matrix;
  };
  Held make(const Plan& plan, const Weight& weight, cudaStream_t stream) const;
  Held filled(const Plan& plan, const Weight& weight, const WeightFormat& format, cudaStream_t stream) const;

  const host::ModelView& model_;
  int rank_;
  std::uint64_t seed_;
  Real real_;
  WeightSharing sharing_;
  std::map<std::pair<std::int32_t, StepKind>, Held> held_;
  std::map<std::pair<std::int32_t, StepKind>, std::pair<std::int32_t, StepKind>> stands_for_;
  std::int64_t bytes_ = 0;
};

}  // namespace specstep::cuda
