#include "comm/cuda/let_share.h"

#include <cstdlib>

namespace specstep::comm {

void let_ranks_share() {
  (void)setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

}  // namespace specstep::comm
