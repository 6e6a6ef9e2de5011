// One-shot by boards: every rank writes its input once, where all can read it, and reads those of the others.
#pragma once

#include "comm/protocol/memory.h"

namespace specstep::comm::protocol {

/// Pairs of {4 bytes of data, epoch}: with many readers nobody could empty a slot. Sums are in the order of the ranks.
/// Two halves are enough: whoever ends a call has seen every rank's data of it, and a rank that writes those has read
/// all that was shown in the call before. `in` and `out` may be one.
template <class Memory>
constexpr bool boards_ll(Memory& m, const Call& call, const Lane& lane) {
  const auto at = [&](std::uint32_t i) {
    return slot(half_of(lane.epoch), 1, 0, m.capacity().packs, i) * words_per_pack;
  };
  for (std::uint32_t i = lane.first; i < call.packs; i += lane.step)
    m.store_line(m.own().board + at(i), m.take(call, i), lane.epoch);
  m.settled(lane);
  for (std::uint32_t i = lane.first; i < call.packs; i += lane.step) {
    Pack got[Memory::most_ranks];
    bool seen[Memory::most_ranks] = {};
    Awaited what{0, Stage::data, i};
    // What has been seen is not read again: boards are far away.
    const auto ready = [&] {
      bool all = true;
      for (int source = Memory::most_ranks - 1; source >= 0; --source) {
        if (source >= call.ranks || source == call.rank || seen[source]) continue;
        seen[source] = m.load_line(m.peer(source).board + at(i), lane.epoch, got[source]);
        if (seen[source]) continue;
        what.rank = source;
        all = false;
      }
      return all;
    };
    const Pack own = m.take(call, i);
    if (!wait_for(m, what, ready)) return false;
    m.put(call, i, sum_of<Memory>(call, got, own));
  }
  return true;
}

}  // namespace specstep::comm::protocol
