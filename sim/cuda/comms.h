// Collectives of one rank: a backend's end for each group of ranks that a plan's collectives run among.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "comm/cuda/bench/probe.h"
#include "comm/cuda/device_comm.h"
#include "comm/pricing.h"
#include "model/plan.h"
#include "sim/config.h"

namespace specstep::cuda {

/// Ranks that a collective runs among: all, those that share this rank's sequences, those with the same place in each
/// attention group.
enum class Members { everyone, attention_group, across_groups };

/// Whether this run plays one rank of the target machine on one device: its backends (delay, null) exchange nothing.
/// Throws InputError where only some of a table's backends are of that kind.
bool plays_one_rank(const RunConfig& config);

class Comms {
 public:
  /// `group`: all ranks of the run. It and `config` outlive this.
  Comms(const RunConfig& config, comm::Bootstrap& group);

  /// Opens what the plan's collectives need; every rank calls it with the same plan. Throws what open_comm throws.
  void prepare(const Plan& plan);
  /// Memory for the buffers of a pass where a backend has some that its calls work on fastest; empty where any is as
  /// good. Every rank calls it with the same plan, whose ends are open.
  std::shared_ptr<void> allocate(const Plan& plan, std::int64_t bytes);
  /// The end that carries a step, nullptr for a step that is no collective.
  comm::DeviceComm* of(const Plan& plan, const Step& step);
  /// See DeviceComm::rehearse.
  void rehearse(bool on);
  /// Waits until the stream is idle, at most the run's limit. When that takes longer, a backend fails, or `failed` is
  /// set by another rank, all backends are aborted, so that the stream drains, and Error says why.
  void wait(cudaStream_t stream, const std::atomic<bool>& failed, std::string_view what);
  void abort() noexcept;
  std::vector<std::string> notes() const;
  std::int64_t device_bytes() const;

 private:
  using Key = std::pair<Members, std::string>;
  Key key_of(const Plan& plan, const Step& step);
  std::string chosen(const std::string& rule, Members members, const comm::Call& call);
  void note(const std::string& text);
  void probe(Members members, const comm::Call& call, const ParallelLayout& layout);
  comm::CommRequest request_of(const std::string& backend, int ranks) const;
  comm::Bootstrap& group_of(Members members, const ParallelLayout& layout);

  const RunConfig& config_;
  comm::Bootstrap& all_;
  comm::Topology topology_;
  comm::Pricer pricer_;
  std::map<Members, std::unique_ptr<comm::Bootstrap>> groups_;
  std::map<Key, std::unique_ptr<comm::DeviceComm>> open_;
  std::vector<std::string> choices_;
  std::map<Members, comm::Probe> probed_;
};

}  // namespace specstep::cuda
