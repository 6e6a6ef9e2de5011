// A target or a draft on ranks that are threads of the CPU.
#pragma once

#include <memory>

#include "sim/host/pass_model.h"
#include "sim/host/rank.h"

namespace specstep::host {

/// How long a pass took, on the slowest rank.
struct PassTime {
  double seconds = 0;
  std::vector<double> steps;              // of a traced pass
  std::vector<std::int32_t> experts_met;  // as Rank::experts_met, of the first rank
};

class Model final : public PassModel {
 public:
  /// `sequences`: room for so many texts.
  Model(ModelView view, std::int64_t ranks, std::size_t sequences, const HostSpec& spec, Team& team,
        Exchange& exchange);

  const ModelView& view() const override { return view_; }
  void prepare(const Plan& plan) override;
  PassOutput run(const Plan& plan, const PassInput& input) override;
  /// Like run, with the time of the ranks' work alone.
  PassTime timed(const Plan& plan, const PassInput& input, bool traced);
  void keep(std::size_t sequence, std::int64_t base, const std::vector<int>& nodes) override;
  void clear(std::size_t sequence) override;
  /// Makes the caches of a sequence hold zeros for the plan's context, as if so many tokens were there.
  void pretend(const Plan& plan, std::size_t sequence);

 private:
  ModelView view_;
  HostSpec spec_;
  Team& team_;
  Exchange& exchange_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace specstep::host
