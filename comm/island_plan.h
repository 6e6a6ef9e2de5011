// Which ranks form islands, and who exchanges with whom.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/pricing.h"
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

/// What keeps lists from being a division of the ranks 0 to n - 1 into islands of equal size, or nothing; n is their
/// number of members.
struct DivisionFault {
  std::string key;  // of the list or the member at fault, as in "[1][0]"
  std::string what, allowed;
};
std::optional<DivisionFault> division_fault(const Islands& islands);
/// The ranks that a division without fault is of.
int ranks_of(const Islands& islands);

}  // namespace specstep::comm
