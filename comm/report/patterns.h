// What patterns of flows get on a fabric.
#pragma once

#include <string>
#include <vector>

#include "comm/slowdown.h"
#include "comm/topology.h"

namespace specstep::comm {

/// Flows that run together, each as long as the others.
struct Pattern {
  std::string name;
  std::vector<PeerFlow> flows;
};

struct PatternRate {
  std::string name;
  int flows = 0;
  Operation operation = Operation::write;
  double total = 0;   // all bytes over the time until the last flow ends, bytes per second
  double least = 0;   // of the slowest flow while all run
  std::string limit;  // what holds the slowest back
};

/// `copies`: by copy engines, as bandwidth tests do; else by loads and stores of a kernel, whose reads are limited by
/// what a GPU keeps in flight.
PatternRate rate_of(const Topology& topology, const Pattern& pattern, bool copies);

/// The patterns that tell fabrics apart: one flow of each distance, the GPUs of one switch through its uplink to one
/// root and to two, half to half, and all to all; each written and read.
std::vector<Pattern> standard_patterns(const Topology& topology);

/// "0>4 1>6" or "0,1>4,5": every left GPU sends to every right one; "all to all"; "all A to B" or "cross", first half
/// to second; "1:1 pairs", each of the first half to its partner; "all pairs both ways". Throws InputError at `place`
/// for anything else or for ranks that the fabric does not have.
Pattern parse_pattern(const std::string& text, Operation operation, const Topology& topology, const Location& place);

}  // namespace specstep::comm
