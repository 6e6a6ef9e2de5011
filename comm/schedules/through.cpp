// Schedules that meet in a third place: host memory, or a switch that reduces.
#include "comm/schedules/schedules.h"

namespace specstep::comm {

// Each rank writes once into host memory near it (the writer's side: writes to far host memory collapse where peer
// writes do) and reads the others'. Flags travel with the data, so a read that finds none is repeated.
Schedule host_broadcast(int ranks) {
  Schedule schedule{"host broadcast", Collective::all_reduce, ranks, {}, {}, false};
  Phase put{"write to host memory", Sync::data, {}};
  Phase get{"read the others'", Sync::data, {}};
  for (int r = 0; r < ranks; ++r) {
    schedule.extras.push_back({Extra::Kind::host_buffer, r});
    put.transfers.push_back({r, ranks + r, {}, {}, Effect::copy, Operation::write});
    for (int i = 1; i < ranks; ++i)
      get.transfers.push_back({ranks + (r + i) % ranks, r, {}, {}, Effect::combine, Operation::read});
  }
  if (ranks > 1) schedule.phases = {put, get};
  return schedule;
}

// Rank r owns part r: the switch adds the part of all ranks on the way to it, and hands its result to all. Each thread
// loads a pack that the switch has summed and stores it to all at once, so all four phases stream.
Schedule multicast(int ranks) {
  Schedule schedule{"multicast two-shot", Collective::all_reduce, ranks, {{Extra::Kind::nvswitch, 0}}, {}, false};
  Phase reduce{"the switch reads all", Sync::barrier, {}};
  Phase fetch{"owners get their parts", Sync::none, {}};
  Phase store{"owners write to the switch", Sync::none, {}};
  Phase spread{"the switch writes to all", Sync::none, {}};
  for (int r = 0; r < ranks; ++r) {
    const Range part{r, r + 1, ranks};
    for (int s = 0; s < ranks; ++s) {
      reduce.transfers.push_back({s, ranks, part, part, Effect::combine, Operation::write});
      spread.transfers.push_back({ranks, s, part, part, Effect::copy, Operation::write});
    }
    fetch.transfers.push_back({ranks, r, part, part, Effect::copy, Operation::write});
    store.transfers.push_back({r, ranks, part, part, Effect::copy, Operation::write});
  }
  schedule.end_barrier = true;
  fetch.streamed = store.streamed = spread.streamed = true;
  if (ranks > 1) schedule.phases = {reduce, fetch, store, spread};
  return schedule;
}

}  // namespace specstep::comm
