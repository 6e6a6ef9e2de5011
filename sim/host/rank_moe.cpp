// Routed experts of a rank.
#include <algorithm>
#include <set>

#include "sim/host/rank.h"

namespace specstep::host {

/// The top-k experts of each token; weights are the softmax over their scores. Row: k experts, then k weights.
void Rank::compute(const Router& op) {
  const Matrix& scores = in();
  Matrix& routes = out();
  routes.resize(scores.rows(), 2 * op.top_k);
  pair_expert_.clear();
  for (Index r = 0; r < scores.rows(); ++r) {
    const std::vector<std::int64_t> best =
        largest({&scores(r, 0), static_cast<std::size_t>(scores.cols())}, static_cast<std::size_t>(op.top_k));
    for (Index i = 0; i < op.top_k; ++i) {
      const std::int64_t expert = best[static_cast<std::size_t>(i)];
      routes(r, i) = static_cast<float>(expert);
      routes(r, op.top_k + i) = scores(r, expert);
      pair_expert_.push_back(local_expert(routes(r, i)));
    }
    softmax({&routes(r, op.top_k), static_cast<std::size_t>(op.top_k)});
  }
}

std::int32_t Rank::local_expert(float id) const {
  const std::int64_t each = model_.mlp.experts / plan_->layout.expert;
  const auto expert = static_cast<std::int64_t>(id);
  const std::int64_t mine = rank_ / plan_->layout.expert_tensor();
  return expert >= 0 && expert / each == mine ? static_cast<std::int32_t>(expert % each) : -1;
}

void Rank::compute(const GroupedGemm& op) {
  const Matrix& source = in();
  const auto pairs = static_cast<Index>(pair_expert_.size());
  // Before the experts a row is a token, which all its experts read; after an exchange and between the two products it
  // is a pair.
  const Index share = source.rows() == pairs ? 1 : op.top_k;
  if (step_->kind == StepKind::expert_gate_up) {
    std::set<std::int32_t> met(pair_expert_.begin(), pair_expert_.end());
    met.erase(-1);
    experts_met_.push_back(static_cast<std::int32_t>(met.size()));
  }
  Matrix result = Matrix::Zero(pairs, op.n);
  for (Index p = 0; p < pairs; ++p) {
    const std::int32_t expert = pair_expert_[static_cast<std::size_t>(p)];
    if (expert < 0) continue;
    product(source.middleRows(p / share, 1), weight(static_cast<std::size_t>(expert)), result.middleRows(p, 1));
  }
  out() = std::move(result);
  settle(out());
}

void Rank::compute(const Combine& op) {
  const Matrix& experts = in(0);
  const Matrix& routes = in(1);
  Matrix sum = op.shared ? in(2) : Matrix(Matrix::Zero(routes.rows(), op.hidden));
  for (Index r = 0; r < routes.rows(); ++r)
    for (Index i = 0; i < op.top_k; ++i) sum.row(r) += routes(r, op.top_k + i) * experts.row(r * op.top_k + i);
  out() = std::move(sum);
  settle(out());
}

void Rank::compute(const AllToAll& op) {
  if (step_->kind == StepKind::dispatch)
    send_to_experts(op);
  else
    send_back(op);
}

/// Each pair's row goes to the owner of its expert, with the expert's id; a slot that is not for the receiver says -1.
void Rank::send_to_experts(const AllToAll& op) {
  const Matrix& rows = in(0);
  const Matrix& routes = in(1);
  const Index k = routes.cols() / 2;
  const Index slots = rows.rows() * k;
  const Index each = model_.mlp.experts / op.ranks;
  Matrix sent = Matrix::Constant(op.ranks * slots, rows.cols() + 1, 0);
  sent.rightCols(1).setConstant(-1);
  for (Index p = 0; p < slots; ++p) {
    const auto expert = static_cast<Index>(routes(p / k, p % k));
    const Index target = expert / each * slots + p;
    sent.row(target).leftCols(rows.cols()) = rows.row(p / k);
    sent(target, rows.cols()) = static_cast<float>(expert);
  }
  exchanged(sent, everyone(), comm::Collective::all_to_all, op.bytes());
  pair_expert_.clear();
  for (Index p = 0; p < sent.rows(); ++p) pair_expert_.push_back(local_expert(sent(p, rows.cols())));
  out() = sent.leftCols(rows.cols());
}

void Rank::send_back(const AllToAll& op) {
  Matrix rows = in();
  const Matrix& routes = buffer(BufferKind::routes);
  exchanged(rows, everyone(), comm::Collective::all_to_all, op.bytes());
  const Index k = routes.cols() / 2;
  const Index slots = routes.rows() * k;
  const Index each = model_.mlp.experts / op.ranks;
  Matrix mine(slots, rows.cols());
  for (Index p = 0; p < slots; ++p) mine.row(p) = rows.row(static_cast<Index>(routes(p / k, p % k)) / each * slots + p);
  out() = std::move(mine);
}

}  // namespace specstep::host
