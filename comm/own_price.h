// What specstep's own kernels cost: the schedules that comm/protocol carries out, with the times of their steps.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/backend.h"

namespace specstep::comm {

/// Whether this call is priced as our kernel: it asks for that (Call::own), we have one whose steps are known, and the
/// fabric says what they take (`gpu.own_kernels`).
bool priced_as_own(const std::string& id, const Topology& topology, const Call& call);

/// What our kernel moves, and its time of each part; of a call that is priced so.
std::vector<Variant> own_variants(const std::string& id, const Topology& topology, const Call& call);
Prepared own_price(const std::string& id, const Topology& topology, const Call& call);

}  // namespace specstep::comm
