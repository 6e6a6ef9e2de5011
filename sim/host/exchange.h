// Collectives between ranks that are threads: the schedule of the chosen backend, run by comm's interpreter.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "comm/pricing.h"
#include "comm/topology.h"
#include "model/plan.h"
#include "sim/config.h"
#include "sim/host/team.h"

namespace specstep::host {

/// Schedule with which a backend of the table sums over `ranks` ranks of this fabric. Where a backend chooses by size
/// (nccl, island) its first choice that carries values: a ring, the cheapest division. Throws InputError for null and
/// delay, which move nothing, and with the backend's own reason where it refuses.
comm::Schedule allreduce_schedule(const CommSpec& comm, const std::string& backend, const comm::Topology& topology,
                                  int ranks);

/// Ranks that exchange with each other, in the order of the schedule's ranks.
using Group = std::vector<int>;

class Exchange {
 public:
  /// Takes over the team's meetings.
  Exchange(const RunConfig& config, Team& team);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  /// Makes the schedules that a plan needs. Throws what allreduce_schedule throws.
  void prepare(const Plan& plan);
  /// Who carries what, where the config left it to a rule.
  const std::vector<std::string>& notes() const { return notes_; }
  /// Called by every rank of the team with its own group (groups are disjoint and cover the team) and vector; see
  /// comm::run_on_host for what the vector holds before and after. `bytes` is the payload, which picks the backend.
  void run(int rank, const Group& group, comm::Collective kind, std::int64_t bytes, std::vector<float>& vector);

 private:
  struct Carried {
    comm::Schedule schedule;
    bool as_fp8 = false;
  };
  using Key = std::pair<std::string, int>;  // backend or collective, ranks
  Key key_of(comm::Collective kind, std::int64_t bytes, int ranks) const;
  void need(comm::Collective kind, std::int64_t bytes, std::int64_t ranks);
  /// Settles `engine-default` and `auto` as the cost executor does: by price, as if in a CUDA graph.
  void settle(std::int64_t bytes, int ranks);

  CommSpec comm_;
  comm::Topology topology_;
  Team& team_;
  std::map<Key, Carried> schedules_;
  std::map<std::pair<std::int64_t, int>, std::string> settled_;  // backend by bytes and ranks, where a rule chose
  std::vector<std::string> notes_;
  /// What each rank of the meeting under way has brought.
  struct Brought {
    const Group* group = nullptr;
    const Carried* carried = nullptr;
    std::vector<float>* vector = nullptr;
  };
  void carry_out();
  std::vector<Brought> brought_;
};

}  // namespace specstep::host
