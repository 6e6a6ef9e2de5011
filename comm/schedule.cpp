// Counting what a schedule does.
#include "comm/schedule.h"

#include <algorithm>

namespace specstep::comm {

ScheduleCounts count(const Schedule& schedule) {
  ScheduleCounts counts;
  counts.phases = static_cast<int>(schedule.phases.size());
  for (const Phase& phase : schedule.phases) {
    const int here = static_cast<int>(phase.transfers.size());
    counts.transfers += here;
    counts.most_in_flight = std::max(counts.most_in_flight, here);
    for (const Transfer& t : phase.transfers) counts.bytes += t.from.share();
  }
  return counts;
}

double wire_factor(Wire wire, double value_bytes) {
  switch (wire) {
    case Wire::plain:
    case Wire::sentinel:
      return 1;
    case Wire::ll:
      return 2;
    case Wire::ll128:
      return 128.0 / 120.0;
    case Wire::fp8:
      return (1 + 4.0 / 256) / value_bytes;
  }
  return 1;
}

}  // namespace specstep::comm
