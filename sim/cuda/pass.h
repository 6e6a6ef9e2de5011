// A plan on one rank: its buffers, and how each operation is put on the stream. As host::Rank, operation by operation.
#pragma once

#include <array>

#include "sim/cuda/inputs.h"
#include "sim/cuda/kernels/elementwise.h"
#include "sim/cuda/rank.h"

namespace specstep::cuda {

class RankPass {
 public:
  /// The plan outlives the pass, and so does the rank, which must have prepared it.
  RankPass(Rank& rank, const Plan& plan);

  void upload(const host::PassInput& input) { inputs_.upload(input, rank_.device().stream()); }
  /// What comes before the first step: a draft's second input goes where the plan expects it.
  void begin();
  /// Puts one step, or all of them, on the rank's stream. `named` gives each a range that profilers show.
  void issue(std::size_t step);
  void issue_all(bool named);
  /// Puts copies of what the generator reads on the stream; `collect` writes them once the stream is idle: this rank's
  /// sequences, its columns of the logits, or, where all have all of them, `gathered_logits`.
  void fetch();
  void collect(host::PassOutput& out, bool gathered_logits) const;
  /// Keeps the states behind the tokens of the pass; for runs that keep tokens.
  void remember(const host::PassInput& input);

  const Plan& plan() const { return plan_; }
  Rank& rank() { return rank_; }
  std::int64_t bytes() const { return places_.layout.bytes(); }
  /// Distinct local experts met in each layer of the last pass, in layer order; waits for the device.
  std::vector<std::int32_t> experts_met() const;

  /// Device bytes that a plan's buffers and work areas take, input excluded.
  static std::int64_t bytes(const Plan& plan, const host::ModelView& model, const Holding& holding);

 private:
  /// Where everything lies in the one allocation of the pass.
  struct Places {
    Places(const Plan& plan, const host::ModelView& model, const Holding& holding);
    Layout layout;
    std::array<std::int64_t, static_cast<std::size_t>(BufferKind::ids) + 1> buffer{};
    std::int64_t features = 0, parts = 0, received = 0;
    std::int64_t pair_of = 0, begin = 0, spans = 0, sent_ids = 0, received_ids = 0, met = 0;
    std::int64_t attention = 0, index = 0, argmax = 0;
    std::int64_t kept = 0, accepted = 0, last = 0;
  };

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

  void norm_parts(const RmsNorm& op);
  void tap_features(NormCall& call);
  void copy_second_taps();
  void send_to_experts(const AllToAll& op);
  void send_back(const AllToAll& op);
  GemmShape shape_of(const Gemm& op) const;
  bool by_cublas(const Gemm& op) const;
  void prepare_products();
  void follow_widths();

  template <class T = std::byte>
  T* at(std::int64_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }
  std::byte* buffer(BufferKind kind) const { return at(places_.buffer[static_cast<std::size_t>(kind)]); }
  BufferKind kind_in(std::size_t i = 0) const { return plan_.buffers[static_cast<std::size_t>(step_->in[i])].kind; }
  BufferKind kind_out() const { return plan_.buffers[static_cast<std::size_t>(step_->out)].kind; }
  std::byte* in(std::size_t i = 0) const { return buffer(kind_in(i)); }
  std::byte* out() const { return buffer(kind_out()); }
  /// Columns of the step's first input, as the step that wrote it left it.
  std::int64_t in_cols() const { return in_cols_[static_cast<std::size_t>(step_ - plan_.steps.data())]; }
  std::byte* moved(std::byte* to, std::int64_t values) const { return to + values * bytes_of(real()); }
  /// The step's weight in the plan: of a fused norm its gain, which carries the norm's label.
  const Weight& stored() const { return plan_.weights[static_cast<std::size_t>(step_->weight)]; }
  const StoredMatrix& weight() const { return rank_.weights().at(stored().layer, stored().step); }
  Real real() const { return rank_.real(); }
  DType value_type() const { return real() == Real::f32 ? DType::f32 : DType::bf16; }
  cudaStream_t stream() const { return rank_.device().stream(); }
  comm::DeviceComm& comm() const { return *comms_[static_cast<std::size_t>(step_ - plan_.steps.data())]; }
  const host::ModelView& model() const { return rank_.model(); }
  const AttentionSpec& attention() const { return rank_.model().attention; }
  std::int64_t experts_each() const { return model().mlp.experts / plan_.layout.expert; }
  std::int64_t first_expert() const { return rank_.rank() / plan_.layout.expert_tensor() * experts_each(); }
  /// Of the step's layer: each keeps its own, so that its products can be repeated with the experts it met in a pass.
  Grouping grouping() const {
    const std::int64_t layer = step_->layer;
    const std::int64_t ends = experts_each() + 1;
    return {at<std::int32_t>(places_.pair_of) + layer * pair_rows_, at<std::int32_t>(places_.begin) + layer * ends,
            at<std::int32_t>(places_.spans) + layer * 2 * ends};
  }
  std::int32_t* routed_ids() const { return reinterpret_cast<std::int32_t*>(buffer(BufferKind::routes)); }
  float* routed_weights(std::int64_t tokens, std::int64_t top_k) const {
    return reinterpret_cast<float*>(routed_ids() + tokens * top_k);
  }
  /// Rows of (token, expert) pairs that this rank's experts may get.
  std::int64_t pair_rows() const { return pair_rows_; }

  Rank& rank_;
  const Plan& plan_;
  Places places_;
  std::shared_ptr<void> lent_;  // a backend's memory; else
  DeviceBuffer memory_;
  std::byte* base_ = nullptr;  // of either
  PassInputs inputs_;
  std::vector<std::int64_t> in_cols_;     // by step
  std::vector<comm::DeviceComm*> comms_;  // by step; null where it is no collective
  std::vector<std::string> labels_;       // by step, once a named pass asked for them
  std::int64_t pair_rows_ = 0;
  bool exchanges_ = false;  // whole experts travel between ranks
  const Step* step_ = nullptr;
  PinnedBuffer fetched_;
  std::int64_t fetched_logits_ = 0, fetched_hidden_ = 0, fetched_features_ = 0;
};

}  // namespace specstep::cuda
