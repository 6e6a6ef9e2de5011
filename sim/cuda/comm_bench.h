// specstep comm on devices: every backend in turn, ranks as threads or as processes of mpirun.
#pragma once

#include "sim/comm_bench.h"

namespace specstep::cuda {

/// See specstep::measure_comm.
CommBenchmark measure_comm(const comm::MeasureRequest& request);

}  // namespace specstep::cuda
