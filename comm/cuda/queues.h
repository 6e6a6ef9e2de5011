// Queues between host and device.
#pragma once

namespace specstep::comm {

/// Asks the driver for as many queues as it has, unless the environment says how many: streams of ranks that share a
/// device must not share a queue, or a call that waits for another rank would stand in front of that rank's. To be
/// called before a device is used; later it has no effect.
void ask_for_queues();

}  // namespace specstep::comm
