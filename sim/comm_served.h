// Whether the backend that a config picks for a call can carry it.
#pragma once

#include "comm/topology.h"
#include "sim/config.h"

namespace specstep {

/// The division of so many ranks that comm.own.islands asks for, or nothing.
const std::vector<std::vector<int>>* asked_islands(const CommSpec& comm, std::int64_t ranks);
/// comm::refusal() of a backend, with the islands that are asked for.
std::optional<std::string> backend_refusal(const CommSpec& comm, const std::string& backend,
                                           const comm::Topology& topology, const comm::Call& call);

/// Throws InputError with the reason and the key that picked the backend (comm.backend, or that of a row of the table).
/// Choices that a rule makes pass: they serve.
void require_served(const CommSpec& comm, const comm::Topology& topology, const comm::Call& call);

}  // namespace specstep
