// One-shot. Every rank needs the p - 1 vectors of the others: p (p - 1) transfers, all in flight together.
// By reads (vLLM's one-stage kernel) a barrier says that inputs are published, and another that they may be reused;
// by writes the data is its own flag and no barrier is needed, since inboxes alternate.
#include "comm/schedules/schedules.h"

namespace specstep::comm {

Schedule one_shot(int ranks, Operation operation) {
  const bool pull = operation == Operation::read;
  Schedule schedule{pull ? "one-shot pull" : "one-shot push", Collective::all_reduce, ranks, {}, {}, pull};
  Phase phase{pull ? "read all" : "write to all", pull ? Sync::barrier : Sync::data, {}};
  for (int dst = 0; dst < ranks; ++dst)
    for (int i = 1; i < ranks; ++i)  // rotated starts spread the load; sums are still made in rank order
      phase.transfers.push_back({(dst + i) % ranks, dst, {}, {}, Effect::combine, operation});
  if (ranks > 1) schedule.phases.push_back(std::move(phase));
  return schedule;
}

}  // namespace specstep::comm
