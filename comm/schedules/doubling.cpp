// Recursive doubling. With q the largest power of two not above p, rank q + i first folds into rank i; then partners at
// distance 1, 2, 4, ... exchange whole sums, log2(q) steps; the folded ranks get the result at the end.
#include "comm/schedules/schedules.h"

namespace specstep::comm {

Schedule recursive_doubling(int ranks) {
  Schedule schedule{"recursive doubling", Collective::all_reduce, ranks, {}, {}, false};
  int power = 1;
  while (2 * power <= ranks) power *= 2;
  Phase fold{"fold", Sync::data, {}};
  Phase unfold{"unfold", Sync::data, {}};
  for (int r = power; r < ranks; ++r) {
    fold.transfers.push_back({r, r - power, {}, {}, Effect::combine, Operation::write});
    unfold.transfers.push_back({r - power, r, {}, {}, Effect::copy, Operation::write});
  }
  if (!fold.transfers.empty()) schedule.phases.push_back(fold);
  for (int distance = 1; distance < power; distance *= 2) {
    Phase exchange{"exchange", Sync::data, {}};
    for (int r = 0; r < power; ++r)
      exchange.transfers.push_back({r, r ^ distance, {}, {}, Effect::combine, Operation::write});
    schedule.phases.push_back(std::move(exchange));
  }
  if (!unfold.transfers.empty()) schedule.phases.push_back(unfold);
  return schedule;
}

}  // namespace specstep::comm
