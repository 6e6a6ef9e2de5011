#include "comm/cuda/own/fused_kernel.cuh"

namespace specstep::comm {

FusedKind fused_island() { return fused_kind<protocol::Protocol::push_islands>(); }

}  // namespace specstep::comm
