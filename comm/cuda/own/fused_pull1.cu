#include "comm/cuda/own/fused_kernel.cuh"

namespace specstep::comm {

FusedKind fused_pull1() { return fused_kind<protocol::Protocol::pull_one_stage>(); }

}  // namespace specstep::comm
