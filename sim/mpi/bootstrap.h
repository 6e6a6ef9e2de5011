// Ranks that are processes started by mpirun.
#pragma once

#include <memory>

#include "comm/bootstrap.h"

namespace specstep::mpi {

/// This process as a rank of MPI_COMM_WORLD. The first call starts MPI; MPI ends with the process. A rank that fails,
/// or waits longer than the limit, prints the reason once and ends all processes by MPI_Abort: the others may be stuck
/// where no exception reaches them. `fail` does not return. Throws Error when MPI does not start.
std::unique_ptr<comm::Bootstrap> mpi_bootstrap(double wait_limit_seconds);

}  // namespace specstep::mpi
