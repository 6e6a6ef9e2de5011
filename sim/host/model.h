// A target or a draft on all its ranks.
#pragma once

#include <memory>

#include "sim/host/rank.h"

namespace specstep::host {

/// How long a pass took, on the slowest rank.
struct PassTime {
  double seconds = 0;
  std::vector<double> steps;  // of a traced pass
};

class Model {
 public:
  /// `sequences`: room for so many texts.
  Model(ModelView view, std::int64_t ranks, std::size_t sequences, const HostSpec& spec, Team& team,
        Exchange& exchange);

  const ModelView& view() const { return view_; }
  /// Makes weights and schedules that a plan needs.
  void prepare(const Plan& plan);
  PassOutput run(const Plan& plan, const PassInput& input);
  /// Like run, with the time of the ranks' work alone.
  PassTime timed(const Plan& plan, const PassInput& input, bool traced);
  /// Commits nodes of a sequence on all ranks; see RankCache::keep.
  void keep(std::size_t sequence, std::int64_t base, const std::vector<int>& nodes);
  void clear(std::size_t sequence);
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
