// The ranks of a run in this process: threads, each with its device.
#pragma once

#include <functional>

#include "sim/cuda/rank.h"
#include "sim/host/team.h"

namespace specstep::cuda {

class Crew {
 public:
  /// One thread for each rank, or one process of MPI's as one rank, or, with a backend that exchanges nothing, one rank
  /// alone. Throws Unsupported where there are too few devices, InputError for devices that do not exist.
  /// `config` outlives the crew.
  explicit Crew(const RunConfig& config);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  /// Ranks of the run that have a device, here and in other processes; the first of this process, and how many.
  int ranks() const { return ends_.front()->ranks(); }
  int first() const { return ends_.front()->rank(); }
  int local() const { return static_cast<int>(ends_.size()); }
  /// Free bytes for each rank of the fullest device of this process: before anything was allocated, and now.
  double free_at_start() const { return free_at_start_; }
  double free_now() const;
  /// Whether ranks of this process share a device.
  bool shares_devices() const;
  /// Devices of this process's ranks.
  const std::vector<int>& devices() const { return device_of_; }

  /// Calls work on every rank of this process, its device current, and returns when all are done. A rank that throws
  /// ends all others, in other processes as well, and its error is thrown here.
  void run(const std::function<void(RankDevice&)>& work);
  /// Inside work: waits for the rank's stream, see Comms::wait.
  void wait(RankDevice& rank, std::string_view what);
  /// Inside work: the largest of what all ranks give.
  static double largest(RankDevice& rank, double mine, const std::string& what);
  RankDevice& at(int local) { return *ranks_[static_cast<std::size_t>(local)]; }

 private:
  std::vector<std::unique_ptr<comm::Bootstrap>> ends_;
  std::vector<int> device_of_;
  double free_at_start_ = 0;
  std::atomic<bool> failed_ = false;
  std::vector<std::unique_ptr<RankDevice>> ranks_;
  host::Team team_;
};

/// Devices of this machine; throws Unsupported with the reason when there is none.
int device_count();

}  // namespace specstep::cuda
