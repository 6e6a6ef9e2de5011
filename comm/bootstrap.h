// How the ranks of one run find each other before any device is involved: threads of a process, or processes.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace specstep::comm {

/// One rank's end. Every rank calls the same functions in the same order. A wait that outlasts the limit given at
/// creation, or a rank that failed, throws Error that names the rank and what was waited for; nobody waits for ever.
/// After a failure every further call throws the same: such a group is of no more use. Calls of one end come from one
/// thread at a time, `fail` from any. Processes under MPI cannot all be told by an exception: there a failure is
/// printed, and ends every process.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;
  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  /// Which of the host's ranks this one is, and how many they are: threads of one process, or processes of one host.
  virtual int local_rank() const = 0;
  virtual int local_ranks() const = 0;
  /// What every rank gave, in rank order; lengths may differ. `what` names the meeting in errors and is equal on all
  /// ranks: where it differs, they are out of step, which is an Error.
  virtual std::vector<std::string> all_gather(const std::string& mine, const std::string& what) = 0;
  void barrier(const std::string& what) { all_gather("", what); }
  /// Tells the others that this rank cannot go on: their waits throw with this reason. The first reason stays.
  virtual void fail(const std::string& reason) noexcept = 0;
};

/// Ranks that are threads of this process: one end for each, sharing their state. An end that is destroyed while
/// others still wait for it counts as failed.
std::vector<std::unique_ptr<Bootstrap>> thread_bootstrap(int ranks, double wait_limit_seconds);

/// Whether mpirun (or another launcher of its kind) started this process as one of several. The only place that asks:
/// OMPI_COMM_WORLD_SIZE is set by Open MPI, PMI_SIZE by MPICH, Intel MPI and Slurm's PMI-1 and PMI-2.
bool under_mpi();

}  // namespace specstep::comm
