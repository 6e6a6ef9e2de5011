#include "comm/cuda/own/fused_kernel.cuh"

namespace specstep::comm {

FusedKind fused_push1(bool lines) {
  return lines ? fused_kind<protocol::Protocol::push_ll>() : fused_kind<protocol::Protocol::push_sentinel>();
}

}  // namespace specstep::comm
