// How the ranks of one run find each other before any device is involved: threads of a process, or processes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace specstep::comm {

/// One rank's end. Every rank calls the same functions in the same order. A wait that outlasts the limit given at
/// creation, or a rank that failed, throws Error that names the rank and what was waited for; nobody waits for ever.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Ranks of this process, all on one host: the first one, and how many.
  virtual int local_rank() const = 0;
  virtual int local_ranks() const = 0;
  /// Equal bytes of every rank, in rank order.
  virtual std::vector<std::string> all_gather(const std::string& mine, const std::string& what) = 0;
  void barrier(const std::string& what) { all_gather("", what); }
  /// Tells the others that this rank cannot go on: their waits throw with this reason.
  virtual void fail(const std::string& reason) noexcept = 0;
};

/// Ranks that are threads of this process: one end for each, sharing their state.
std::vector<std::unique_ptr<Bootstrap>> thread_bootstrap(int ranks, double wait_limit_seconds);

}  // namespace specstep::comm
