// GPUs as they are now.
#pragma once

#include "sim/executor.h"

namespace specstep::cuda {

/// Name and memory from the runtime; clocks, temperature, power limit and driver from libnvidia-ml, where it is there.
DeviceFacts facts_of(int device);

/// How many GPUs this process can use; throws Unsupported with the reason when there is none.
int usable_devices();

}  // namespace specstep::cuda
