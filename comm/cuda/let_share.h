// What CUDA must know before ranks share a device.
#pragma once

namespace specstep::comm {

/// Ranks that share a device wait there for each other. CUDA must then load all kernels at once, since loading one
/// later may wait for those that wait; and it needs a queue for each stream. Both are read when CUDA starts: to be
/// called before anything else of it. What the environment says stays.
void let_ranks_share();

}  // namespace specstep::comm
