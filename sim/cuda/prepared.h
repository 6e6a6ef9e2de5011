// A plan on all ranks of this process: warmed up, captured, replayed and timed.
#pragma once

#include "sim/cuda/in_situ.h"
#include "sim/cuda/model.h"

namespace specstep::cuda {

/// What a captured graph of a pass holds.
struct CapturedGraph {
  comm::GraphExec exec;
  std::size_t nodes = 0;
  std::size_t allreduces = 0;       // steps that put at least one node there
  std::size_t allreduce_nodes = 0;  // nodes they put there
};

class PreparedPass {
 public:
  /// Prepares the ranks, allocates, runs once eagerly, captures. Throws InputError when the plan does not fit.
  PreparedPass(Model& model, Plan plan, Launch launch);
  ~PreparedPass();
  PreparedPass(const PreparedPass&) = delete;
  PreparedPass& operator=(const PreparedPass&) = delete;

  const Plan& plan() const { return plan_; }
  Launch launch() const { return launch_; }
  /// Runs on an input and brings back what it computed.
  host::PassOutput run(const host::PassInput& input);
  /// Seconds of a pass over a lone input (host::lone_input) by events on the slowest rank; a captured pass is timed
  /// behind another one, so that its launch is hidden as it is between the steps of an engine. Of a prompt's pass the
  /// median of three.
  double seconds();
  /// Seconds of each step: all steps of the same kind and shape back to back in a graph of their own, whose weights are
  /// those of all their layers; at least eight in a graph. Each begins when the one before has ended, also where in a
  /// pass it would begin early: like kernels behind each other would hide more than different ones do. The slowest rank
  /// counts.
  std::vector<double> step_seconds();
  /// Seconds of each step inside the pass, on the first rank of this process: from a captured pass that stamps the
  /// device's clock between its steps, what such a stamp takes subtracted. Steps that would begin early begin behind a
  /// stamp; of an eager pass that is the device's work without its launches. The median of three passes, of a prompt
  /// one.
  std::vector<double> seconds_inside();
  /// The allreduces of the layers inside the pass, from a pass launched alike that stamps each rank's arrivals and
  /// departures; two stamps are kernels too, and lengthen what they enclose by the gaps between kernels. Nothing for a
  /// pass without them.
  std::optional<InSitu> in_situ();
  /// That of the first rank of this process: no nodes where nothing is captured.
  const CapturedGraph& graph() const { return ranks_.front().graph; }
  /// Experts of the first rank of this process that rows of the last pass were for, [routed layer].
  std::vector<std::int32_t> experts_met() const;
  /// Device bytes of its buffers on one rank.
  std::int64_t bytes() const;

 private:
  struct OnRank {
    std::unique_ptr<RankPass> pass;
    CapturedGraph graph;
  };
  void make(RankDevice& device);
  void capture(RankPass& pass, CapturedGraph& graph);
  void put(OnRank& on);
  OnRank* on(RankDevice& device);
  void require_room(const Rank& rank) const;
  using Steps = std::function<bool(const Step&)>;
  Stamps stamped(RankDevice& device, OnRank& on, Launch launch, const Steps& which);
  double seconds_of_stamp(RankDevice& device);
  double group_seconds(RankDevice& device, OnRank& on, const std::vector<std::size_t>& steps);
  double timed(RankDevice& device, const std::function<void()>& ahead, const std::function<void()>& work);

  Model& model_;
  Plan plan_;
  Launch launch_;
  host::PassInput lone_;
  std::vector<OnRank> ranks_;  // of this process
};

}  // namespace specstep::cuda
