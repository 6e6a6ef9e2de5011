// Allreduces of the device protocols with threads as ranks: whether calls end and sums are right, without a GPU.
#pragma once

#include "comm/measure.h"

namespace specstep::comm {

/// Backends whose protocol runs on threads: push1 pull1 rsag island hostbc ring ce q8.
std::vector<std::string> host_backends();

/// Checks and times each backend and size on `request.ranks` threads of this process, bf16. Times are those of threads
/// on this CPU and say nothing of a GPU; they stand as eager ones. A call that does not end within the wait limit ends
/// that backend and is told in its failures; no thread is left behind. Throws InputError for ranks or types that the
/// protocols do not have.
Measurement measure_on_host(const MeasureRequest& request);

}  // namespace specstep::comm
