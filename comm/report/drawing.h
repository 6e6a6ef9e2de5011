// A fabric as text.
#pragma once

#include <string>

#include "comm/topology.h"

namespace specstep::comm {

/// A tree from the roots down, then the links that are not in it.
std::string drawing(const Topology& topology);

}  // namespace specstep::comm
