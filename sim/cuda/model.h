// A target or a draft on all its ranks.
#pragma once

#include "sim/cuda/crew.h"
#include "sim/cuda/pass.h"
#include "sim/host/pass_model.h"

namespace specstep::cuda {

class PreparedPass;

class Model final : public host::PassModel {
 public:
  /// On the first `ranks` ranks of the crew. All outlive the model.
  Model(host::ModelView view, int ranks, const RunConfig& config, const Holding& holding, Crew& crew);
  ~Model() override;

  const host::ModelView& view() const override { return view_; }
  void prepare(const Plan& plan) override;
  host::PassOutput run(const Plan& plan, const host::PassInput& input) override;
  void keep(std::size_t sequence, std::int64_t base, const std::vector<int>& nodes) override;
  void clear(std::size_t sequence) override;

  /// A plan ready to run: warmed up, captured when launched so. Throws InputError when it does not fit.
  std::unique_ptr<PreparedPass> open(const Plan& plan, Launch launch);
  Crew& crew() { return crew_; }
  const Holding& holding() const { return holding_; }
  /// The model's rank on a device of this process, or nullptr where it has none.
  Rank* rank_on(RankDevice& device);
  /// Whether all ranks of the run carry out passes of this model together.
  bool in_step(RankDevice& device) { return device.group().ranks() > 1 && rank_on(device)->among_others(); }
  /// Bytes of weights on one rank.
  std::int64_t weight_bytes() const;

 private:
  host::ModelView view_;
  const RunConfig& config_;
  Holding holding_;
  Crew& crew_;
  std::vector<std::unique_ptr<Rank>> ranks_;  // of this process; empty places where the model has no rank
  std::vector<std::pair<PassShape, std::unique_ptr<PreparedPass>>> passes_;
};

}  // namespace specstep::cuda
