// Whether a backend sums right, found out before anything is measured with it.
#pragma once

#include <string_view>

#include "comm/cuda/device_comm.h"

namespace specstep::comm {

/// Sums integers from 0 to below `below` of every type among all ranks; each calls it with its end. Throws Error where
/// a sum is not exact: drivers have reported peers whose reads were wrong. It also loads kernels, and what a library
/// makes with its first call, which must not happen later, in a capture or while other ranks wait on the device.
void check_sums(DeviceComm& comm, Bootstrap& group, std::string_view backend, double limit_seconds, int below = 11);

}  // namespace specstep::comm
