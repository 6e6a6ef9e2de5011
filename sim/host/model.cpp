#include "sim/host/model.h"

#include <chrono>
#include <numeric>

namespace specstep::host {

Model::Model(ModelView view, std::int64_t ranks, std::size_t sequences, const HostSpec& spec, Team& team,
             Exchange& exchange)
    : view_(std::move(view)), spec_(spec), team_(team), exchange_(exchange) {
  for (int r = 0; r < ranks; ++r) ranks_.push_back(std::make_unique<Rank>(view_, r, sequences, spec_));
}

void Model::prepare(const Plan& plan) {
  exchange_.prepare(plan);
  team_.run([&](int rank) {
    if (static_cast<std::size_t>(rank) < ranks_.size()) ranks_[static_cast<std::size_t>(rank)]->prepare(plan);
  });
}

PassTime Model::timed(const Plan& plan, const PassInput& input, bool traced) {
  std::vector<std::vector<double>> seconds(ranks_.size());
  const auto begin = std::chrono::steady_clock::now();
  team_.run([&](int rank) {
    const auto r = static_cast<std::size_t>(rank);
    if (r >= ranks_.size()) return;
    if (traced) seconds[r].resize(plan.steps.size());
    ranks_[r]->run(plan, input, exchange_, traced ? &seconds[r] : nullptr);
  });
  PassTime out{std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
               {},
               ranks_.front()->experts_met()};
  if (!traced) return out;
  double most = -1;
  for (std::vector<double>& one : seconds) {
    const double sum = std::accumulate(one.begin(), one.end(), 0.0);
    if (sum <= most) continue;
    most = sum;
    out.steps = std::move(one);
  }
  out.seconds = most;
  return out;
}

PassOutput Model::run(const Plan& plan, const PassInput& input) {
  timed(plan, input, false);
  Index rows = 0;
  for (const SequenceInput& s : input.sequences) rows += static_cast<Index>(s.tokens.size());
  const Index logit_rows = plan.shape.kind == PassKind::prefill ? static_cast<Index>(input.sequences.size()) : rows;
  const Index features =
      view_.last_hidden_features ? view_.hidden : view_.hidden * static_cast<Index>(view_.taps.size());
  PassOutput out{Matrix(logit_rows, view_.vocab), Matrix(rows, view_.hidden), Matrix(rows, features)};
  for (const auto& rank : ranks_) rank->collect(out);
  return out;
}

void Model::keep(std::size_t sequence, std::int64_t base, const std::vector<int>& nodes) {
  for (const auto& rank : ranks_) rank->cache().keep(sequence, base, nodes);
}

void Model::pretend(const Plan& plan, std::size_t sequence) {
  for (const auto& rank : ranks_)
    for (const Step& step : plan.steps) {
      if (const auto* a = std::get_if<Attention>(&step.op))
        rank->cache().at(step.layer, sequence).kv = Matrix::Zero(plan.shape.context, a->cached_values);
      if (const auto* i = std::get_if<SparseIndex>(&step.op))
        rank->cache().at(step.layer, sequence).index = Matrix::Zero(plan.shape.context, i->dim);
    }
}

void Model::clear(std::size_t sequence) {
  for (const auto& rank : ranks_) rank->cache().clear(sequence);
}

}  // namespace specstep::host
