// One rank: its weights, its cache, and how it carries out each operation of a plan.
#pragma once

#include <array>

#include "sim/host/exchange.h"
#include "sim/host/kernels.h"
#include "sim/host/pass_io.h"
#include "sim/host/weights.h"

namespace specstep::host {

class Rank {
 public:
  Rank(const ModelView& model, int rank, std::size_t sequences, const HostSpec& spec);

  /// Makes the weights that a plan needs.
  void prepare(const Plan& plan) { weights_.add(plan); }
  /// Carries out a plan; all ranks of the team call it together. With `seconds`, the time of each step is written
  /// there.
  void run(const Plan& plan, const PassInput& input, Exchange& exchange, std::vector<double>* seconds);
  /// Experts of this rank that rows of the last pass were for, [routed layer].
  const std::vector<std::int32_t>& experts_met() const { return experts_met_; }
  /// Writes what this rank knows of the pass: its sequences' rows, its columns of the logits.
  void collect(PassOutput& out) const;
  RankCache& cache() { return cache_; }

 private:
  void start(const Plan& plan, const PassInput& input);

  void compute(const Gemm& op);
  void compute(const GroupedGemm& op);
  void compute(const Attention& op);
  void compute(const AttentionJoin& op);
  void compute(const SparseIndex& op);
  void compute(const LinearAttention& op);
  void compute(const AllReduce& op);
  void compute(const AllGather& op);
  void compute(const ReduceScatter& op);
  void compute(const AllToAll& op);
  void compute(const RmsNorm& op);
  void compute(const AllReduceNorm& op);
  void compute(const Activation& op);
  void compute(const Rope& op);
  void compute(const Router& op);
  void compute(const Combine& op);
  void compute(const Embed& op);
  void compute(const Sample& op);

  void absorbed(const Gemm& op);
  void all_reduce(Matrix& values, const AllReduce& op);
  void norm_parts(const RmsNorm& op);
  void rope_gqa(const SequenceInput& in, Index row, std::size_t node, LayerCache& cache);
  void rope_mla(const SequenceInput& in, Index row, std::size_t node, LayerCache& cache);
  void attend_gqa(const Attention& op, Index row, const Matrix& cache, std::span<const std::int64_t> slots);
  void attend_mla(const Attention& op, Index row, const Matrix& cache, std::span<const std::int64_t> slots);
  void recur(const LinearAttention& op, Index row, Matrix& state);
  void send_to_experts(const AllToAll& op);
  void send_back(const AllToAll& op);
  std::int32_t local_expert(float id) const;

  Matrix& buffer(BufferKind kind) { return buffers_[static_cast<std::size_t>(kind)]; }
  const Matrix& buffer(BufferKind kind) const { return buffers_[static_cast<std::size_t>(kind)]; }
  Matrix& in(std::size_t i = 0) { return buffer(plan_->buffers[static_cast<std::size_t>(step_->in[i])].kind); }
  Matrix& out() { return buffer(plan_->buffers[static_cast<std::size_t>(step_->out)].kind); }
  /// The step's weight in the plan: of a fused norm its gain, which carries the norm's label.
  const Weight& stored() const { return plan_->weights[static_cast<std::size_t>(step_->weight)]; }
  const Matrix& weight(std::size_t i = 0) const { return weights_.at(stored().layer, stored().step)[i]; }
  /// Rounds what a step wrote to the type of activations.
  void settle(View values) const;
  void store_cached(std::span<float> values) const;
  /// Values of a matrix through a collective of these ranks, in their order.
  void exchanged(Matrix& values, const Group& group, comm::Collective kind, std::int64_t bytes);
  /// Ranks that share this rank's sequences, those with the same place in each attention group, all.
  Group attention_group() const;
  Group across_groups() const;
  Group everyone() const;
  bool by_sequence() const { return plan_->layout.attention_data > 1; }

  /// Calls f(sequence's input, row, node, sequence) for each token of this rank, in row order.
  template <class F>
  void each_token(F&& f) {
    Index row = 0;
    for (std::size_t s = 0; s < local_.size(); ++s)
      for (std::size_t n = 0; n < local_[s].nodes.count(); ++n)
        f(local_[s], row++, local_[s].nodes.first + n, first_ + s);
  }

  const ModelView& model_;
  int rank_;
  const HostSpec& spec_;
  RankWeights weights_;
  RankCache cache_;
  std::array<Matrix, static_cast<std::size_t>(BufferKind::ids) + 1> buffers_;
  Matrix features_;
  std::vector<std::int32_t> pair_expert_;  // local expert of each (token, expert) pair, -1: of another rank
  std::vector<std::int32_t> experts_met_;
  const Plan* plan_ = nullptr;
  const Step* step_ = nullptr;
  const PassInput* input_ = nullptr;
  Exchange* exchange_ = nullptr;
  std::vector<SequenceInput> local_;  // the sequences of this rank's attention group
  std::size_t first_ = 0;             // the first of them
};

}  // namespace specstep::host
