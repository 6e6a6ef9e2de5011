// Whether the backend that a config picks for a call can carry it.
#pragma once

#include "comm/topology.h"
#include "sim/config.h"

namespace specstep {

/// Throws InputError with the reason and the key that picked the backend (comm.backend, or that of a row of the table).
/// Choices that a rule makes pass: they serve.
void require_served(const CommSpec& comm, const comm::Topology& topology, const comm::Call& call);

}  // namespace specstep
