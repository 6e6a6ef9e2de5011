#include "comm/cuda/queues.h"

#include <cstdlib>

namespace specstep::comm {

void ask_for_queues() { (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0); }

}  // namespace specstep::comm
