// Two-stage. The vector has p parts and rank r owns part r: in the first step the owner sums its part from all, in the
// second every rank takes the finished parts. Each rank moves 2 (p - 1) / p of the vector.
#include "comm/schedules/schedules.h"

namespace specstep::comm {
namespace {

Phase spread(int ranks, Operation operation, Effect effect) {
  const bool reduce = effect == Effect::combine;
  Phase phase{reduce ? "reduce-scatter" : "all-gather", operation == Operation::read ? Sync::barrier : Sync::data, {}};
  for (int dst = 0; dst < ranks; ++dst)
    for (int i = 1; i < ranks; ++i) {
      const int src = (dst + i) % ranks;
      const int part = reduce ? dst : src;
      const Range range{part, part + 1, ranks};
      phase.transfers.push_back({src, dst, range, range, effect, operation});
    }
  return phase;
}

Phase exchange(int ranks, Operation operation) {
  Phase phase{"all-to-all", operation == Operation::read ? Sync::barrier : Sync::data, {}};
  for (int dst = 0; dst < ranks; ++dst)
    for (int i = 1; i < ranks; ++i) {
      const int src = (dst + i) % ranks;
      phase.transfers.push_back({src, dst, {dst, dst + 1, ranks}, {src, src + 1, ranks}, Effect::copy, operation});
    }
  return phase;
}

}  // namespace

Schedule two_stage(int ranks, Operation operation) {
  const bool pull = operation == Operation::read;
  Schedule schedule{pull ? "two-stage pull" : "two-stage push", Collective::all_reduce, ranks, {}, {}, pull};
  if (ranks > 1) schedule.phases = {spread(ranks, operation, Effect::combine), spread(ranks, operation, Effect::copy)};
  return schedule;
}

Schedule direct(Collective kind, int ranks, Operation operation) {
  Schedule schedule{"direct " + name_of(kind), kind, ranks, {}, {}, operation == Operation::read};
  if (ranks < 2) return schedule;
  if (kind == Collective::all_to_all)
    schedule.phases = {exchange(ranks, operation)};
  else
    schedule.phases = {spread(ranks, operation, kind == Collective::reduce_scatter ? Effect::combine : Effect::copy)};
  return schedule;
}

}  // namespace specstep::comm
