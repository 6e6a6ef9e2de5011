// MPI's life in this process.
#pragma once

#include <mpi.h>

#include <mutex>
#include <string>

namespace specstep::mpi {

/// Throws Error with MPI's text when a call did not succeed.
void check(int status, const char* call);

/// MPI started once and ended with the process, which is all that MPI allows. Calls of MPI are made under `mutex`.
class Session {
 public:
  /// The one of this process; started by the first call. Throws Error when MPI does not start.
  static Session& of_process(double wait_limit_seconds);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  int local_rank() const { return local_rank_; }
  int local_ranks() const { return local_ranks_; }
  std::mutex& mutex() { return mutex_; }
  /// Prints the reason and ends the processes of all ranks.
  [[noreturn]] void abort_all(const std::string& reason) noexcept;

 private:
  explicit Session(double wait_limit_seconds);

  double wait_limit_seconds_;
  int rank_ = 0, ranks_ = 1, local_rank_ = 0, local_ranks_ = 1;
  std::mutex mutex_;
};

}  // namespace specstep::mpi
