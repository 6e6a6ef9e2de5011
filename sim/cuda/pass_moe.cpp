// Routed experts of a rank.
#include "sim/cuda/pass.h"

namespace specstep::cuda {

void RankPass::compute(const Router& op) {
  route({.scores = reinterpret_cast<const float*>(in()),
         .tokens = op.tokens,
         .experts = op.experts,
         .top_k = op.top_k,
         .first_expert = first_expert(),
         .local_experts = experts_each(),
         .ids = routed_ids(),
         .weights = routed_weights(op.tokens, op.top_k),
         .grouping = grouping(),
         .met = at<std::int32_t>(places_.met) + step_->layer},
        stream());
}

void RankPass::compute(const GroupedGemm& op) {
  // Before the experts a row is a token, which all its experts read; after an exchange and between the two products it
  // is a pair.
  const bool down = step_->kind == StepKind::expert_down;
  grouped_product({.in = in(),
                   .in_stride = op.k,
                   .share = down || exchanges_ ? 1 : op.top_k,
                   .out = out(),
                   .out_stride = op.n,
                   .pairs = pair_rows(),
                   .grouping = grouping(),
                   .weight = weight(),
                   .clear = down && experts_each() < model().mlp.experts,
                   .settled = down},  // the first product lies between
                  real(), stream());
}

void RankPass::compute(const Combine& op) {
  combine({.expert_out = in(0),
           .weights = routed_weights(op.tokens, op.top_k),
           .shared = op.shared ? in(2) : nullptr,
           .out = out(),
           .tokens = op.tokens,
           .top_k = op.top_k,
           .hidden = op.hidden},
          real(), stream());
}

void RankPass::compute(const AllToAll& op) {
  if (step_->kind == StepKind::dispatch)
    send_to_experts(op);
  else
    send_back(op);
}

/// Each pair's row goes to the owner of its expert, with the expert's id; a slot that is not for the receiver says -1.
void RankPass::send_to_experts(const AllToAll& op) {
  const std::int64_t pairs = pair_rows() / op.ranks;
  auto* sent_ids = at<std::int32_t>(places_.sent_ids);
  auto* received_ids = at<std::int32_t>(places_.received_ids);
  dispatch_rows({.rows = in(),
                 .ids = routed_ids(),
                 .pairs = pairs,
                 .top_k = model().mlp.top_k,
                 .hidden = model().hidden,
                 .experts_each = model().mlp.experts / op.ranks,
                 .owners = op.ranks,
                 .out = at(places_.received),
                 .out_ids = sent_ids},
                real(), stream());
  comm().all_to_all(at(places_.received), out(), pairs * model().hidden, value_type(), stream());
  comm().all_to_all(sent_ids, received_ids, pairs, DType::f32, stream());  // bits are moved, not numbers
  group_pairs(received_ids, pair_rows(), first_expert(), experts_each(), grouping(), stream(),
              at<std::int32_t>(places_.met) + step_->layer);
}

void RankPass::send_back(const AllToAll& op) {
  const std::int64_t pairs = pair_rows() / op.ranks;
  comm().all_to_all(in(), at(places_.received), pairs * model().hidden, value_type(), stream());
  gather_rows({.rows = at(places_.received),
               .ids = routed_ids(),
               .pairs = pairs,
               .top_k = model().mlp.top_k,
               .hidden = model().hidden,
               .experts_each = model().mlp.experts / op.ranks,
               .owners = op.ranks,
               .out = out()},
              real(), stream());
}

std::vector<std::int32_t> RankPass::experts_met() const {
  std::vector<std::int32_t> all(pair_rows_ > 0 ? static_cast<std::size_t>(plan_.layers) : 0);
  if (all.empty()) return all;
  check(cudaMemcpy(all.data(), at(places_.met), all.size() * sizeof(std::int32_t), cudaMemcpyDeviceToHost),
        "experts met");
  std::vector<std::int32_t> out;
  for (const Step& step : plan_.steps)
    if (step.kind == StepKind::route) out.push_back(all[static_cast<std::size_t>(step.layer)]);
  return out;
}

}  // namespace specstep::cuda
