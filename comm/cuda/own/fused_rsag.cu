#include "comm/cuda/own/fused_kernel.cuh"

namespace specstep::comm {

FusedKind fused_rsag(bool pull) {
  return pull ? fused_kind<protocol::Protocol::pull_two_stage>() : fused_kind<protocol::Protocol::push_two_stage>();
}

}  // namespace specstep::comm
