// Collectives of a rank: rows and columns of a matrix to and from the flat vectors that schedules move.
#include "sim/host/rank.h"

namespace specstep::host {

Group Rank::attention_group() const {
  const auto size = static_cast<int>(plan_->layout.attention_tensor());
  Group group;
  for (int i = 0; i < size; ++i) group.push_back(rank_ / size * size + i);
  return group;
}

Group Rank::across_groups() const {
  const auto size = static_cast<int>(plan_->layout.attention_tensor());
  Group group;
  for (int r = rank_ % size; r < plan_->layout.tensor; r += size) group.push_back(r);
  return group;
}

Group Rank::everyone() const {
  Group group;
  for (int r = 0; r < plan_->layout.tensor; ++r) group.push_back(r);
  return group;
}

void Rank::exchanged(Matrix& values, const Group& group, comm::Collective kind, std::int64_t bytes) {
  std::vector<float> flat(values.data(), values.data() + values.size());
  exchange_->run(rank_, group, kind, bytes, flat);
  std::copy(flat.begin(), flat.end(), values.data());
}

void Rank::all_reduce(Matrix& values, const AllReduce& op) {
  const bool attention = step_->kind == StepKind::attention_allreduce;
  exchanged(values, attention ? attention_group() : everyone(), comm::Collective::all_reduce, op.bytes());
  settle(values);
}

void Rank::compute(const AllReduce& op) { all_reduce(out(), op); }

/// The sum is rounded before it joins the residual stream, as in the device's kernel: fused or not, the bits are equal.
void Rank::compute(const AllReduceNorm& op) {
  all_reduce(in(), op.sum);
  compute(op.norm);
}

void Rank::compute(const AllGather& op) {
  const Matrix& part = in();
  const bool logits = step_->kind == StepKind::logits_gather;
  const Group group = logits ? everyone() : across_groups();
  const auto place = static_cast<Index>(std::find(group.begin(), group.end(), rank_) - group.begin());
  Matrix all = Matrix::Zero(part.rows() * op.ranks, part.cols());
  all.middleRows(place * part.rows(), part.rows()) = part;
  exchanged(all, group, comm::Collective::all_gather, op.bytes());
  if (!logits) {
    out() = std::move(all);
    return;
  }
  Matrix& wide = out();  // parts are columns of the logits
  wide.resize(part.rows(), part.cols() * op.ranks);
  for (Index r = 0; r < op.ranks; ++r)
    wide.middleCols(r * part.cols(), part.cols()) = all.middleRows(r * part.rows(), part.rows());
}

/// Sums over all ranks and keeps the rows of this rank's sequences.
void Rank::compute(const ReduceScatter& op) {
  Matrix& rows = out();
  const bool one_rank_a_group = plan_->layout.attention_tensor() == 1;
  exchanged(rows, everyone(), one_rank_a_group ? comm::Collective::reduce_scatter : comm::Collective::all_reduce,
            op.bytes());
  const Index each = rows.rows() / plan_->layout.attention_data;
  rows = Matrix(rows.middleRows(rank_ / plan_->layout.attention_tensor() * each, each));
  settle(rows);
}

}  // namespace specstep::host
