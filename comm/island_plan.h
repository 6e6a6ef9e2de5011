// Which ranks form islands, and who exchanges with whom.
#pragma once

#include <vector>

#include "comm/topology.h"

namespace specstep::comm {

/// A division of ranks: `islands[i][j]` exchanges with `islands[k][j]`.
using Islands = std::vector<std::vector<int>>;

/// Divisions worth pricing: by nearest switch and by root, where they give at least two islands of equal size above
/// one, each with the pair maps that shift the members of every second island. Empty when the fabric has no such
/// division.
std::vector<Islands> island_plans(const Topology& topology, int ranks);

/// Of those, the one that a message of 64 KiB costs least. Throws Unsupported where there is none.
Islands cheapest_islands(const Topology& topology, int ranks);

}  // namespace specstep::comm
