// One allreduce measured on the GPUs of this machine.
#pragma once

#include <vector>

#include "comm/measure.h"
#include "sim/executor.h"

namespace specstep {

struct CommBenchmark {
  comm::Measurement measured;
  std::vector<DeviceFacts> devices;  // of this process's ranks, each once
  std::vector<int> device_of;        // of this process's ranks, as indices of the machine
  bool reports = true;               // of ranks that are processes only the first does
};

/// Opens the CUDA module and measures. Throws Unsupported with the reason where there is no module or no device,
/// InputError for ranks and devices that do not fit. A backend that refuses or fails is told in the result.
CommBenchmark measure_comm(const comm::MeasureRequest& request);

}  // namespace specstep
