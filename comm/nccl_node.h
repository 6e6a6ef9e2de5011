// From a topology to what NCCL's cost model needs to know of it.
#pragma once

#include <optional>
#include <string>

#include "comm/nccl_model.h"
#include "comm/topology.h"

namespace specstep::comm {

/// Channel graph from the fabric file; hops of the ring in rank order that lie further apart than the P2P level, or
/// have no peer path, go through shared host memory. Throws InputError when the file has no graph for so many ranks.
NcclNode nccl_node(const Topology& topology, int ranks);
/// The reason when the fabric file has no channel graph for so many ranks.
std::optional<std::string> nccl_lacks_graph(const Topology& topology, int ranks);
/// The reason when the fabric's NCCL is older than this.
std::optional<std::string> nccl_is_older(const NcclSpec& spec, int major, int minor);

}  // namespace specstep::comm
