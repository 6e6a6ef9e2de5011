#include "sim/cuda/model.h"

#include <algorithm>

#include "sim/cuda/prepared.h"
#include "sim/engine/launch.h"

namespace specstep::cuda {

Model::Model(host::ModelView view, int ranks, const RunConfig& config, const Holding& holding, Crew& crew)
    : view_(std::move(view)), config_(config), holding_(holding), crew_(crew) {
  ranks_.resize(static_cast<std::size_t>(crew_.local()));
  const int alive = std::min(ranks, crew_.ranks());
  for (int i = 0; i < crew_.local(); ++i) {
    const int rank = crew_.first() + i;
    if (rank < ranks)
      ranks_[static_cast<std::size_t>(i)] = std::make_unique<Rank>(view_, rank, alive, holding_, crew_.at(i));
  }
}

Model::~Model() {
  passes_.clear();
  try {
    crew_.run([&](RankDevice& device) {
      for (int i = 0; i < crew_.local(); ++i)
        if (&crew_.at(i) == &device) ranks_[static_cast<std::size_t>(i)].reset();
    });
  } catch (...) {  // a crew that failed lets go of its memory with the process's devices
  }
}

Rank* Model::rank_on(RankDevice& device) {
  for (int i = 0; i < crew_.local(); ++i)
    if (&crew_.at(i) == &device) return ranks_[static_cast<std::size_t>(i)].get();
  return nullptr;
}

std::int64_t Model::weight_bytes() const {
  std::int64_t most = 0;
  for (const auto& rank : ranks_)
    if (rank) most = std::max(most, rank->weights().bytes());
  return most;
}

std::unique_ptr<PreparedPass> Model::open(const Plan& plan, Launch launch) {
  return std::make_unique<PreparedPass>(*this, plan, launch);
}

void Model::prepare(const Plan& plan) {
  const bool known = std::any_of(passes_.begin(), passes_.end(), [&](const auto& p) { return p.first == plan.shape; });
  if (known) return;
  const LaunchChoice choice = choose_launch(config_, plan.shape.kind, plan.shape.sequences);
  passes_.emplace_back(plan.shape, open(plan, choice.launch));
}

host::PassOutput Model::run(const Plan& plan, const host::PassInput& input) {
  const auto found = std::find_if(passes_.begin(), passes_.end(), [&](const auto& p) { return p.first == plan.shape; });
  if (found == passes_.end()) throw std::logic_error("a pass that was not prepared");
  return found->second->run(input);
}

void Model::keep(std::size_t sequence, std::int64_t base, const std::vector<int>& nodes) {
  crew_.run([&](RankDevice& device) {
    if (Rank* rank = rank_on(device)) rank->keep(static_cast<std::int64_t>(sequence), base, nodes);
  });
}

void Model::clear(std::size_t sequence) {
  crew_.run([&](RankDevice& device) {
    if (Rank* rank = rank_on(device)) rank->clear(static_cast<std::int64_t>(sequence));
  });
}

}  // namespace specstep::cuda
