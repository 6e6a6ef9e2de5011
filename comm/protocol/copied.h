// Two stages with copies made by others, such as copy engines: inputs are copied into their owners' parts, the owners
// sum, and copy their sums to everybody. Each rank copies from its own memory only: a copy out of another one's may be
// carried out over there, behind a kernel that waits for it.
#pragma once

#include "comm/protocol/memory.h"

namespace specstep::comm::protocol {

/// Between the first copies and the second ones. The barrier says that all parts have come. In the order of the ranks,
/// rounded once by the owner. The call's epoch stays: `meet_copies` is of the same call.
template <class Memory>
constexpr bool sum_copies(Memory& m, const Call& call, const Lane& lane) {
  if (!barrier(m, call, lane, 0, Stage::start)) return false;
  const Shard mine = shard_of(call.packs, call.ranks, call.rank);
  const std::uint32_t stride = shard_packs(m.capacity().packs, call.ranks);
  for (std::uint32_t j = lane.first; j < mine.count; j += lane.step) {
    typename Memory::Sum sum;
    const Pack own = m.take(call, mine.begin + j);
    for (int source = 0; source < Memory::most_ranks; ++source)
      if (source < call.ranks)
        sum.add(source == call.rank ? own : m.read(m.own().parts + slot(0, call.ranks, source, stride, j)));
    const Pack result = sum.rounded();
    m.write(m.own().reduced + j, result);
    m.put(call, mine.begin + j, result);
  }
  return true;
}

/// Behind the second copies. The barrier says that all sums have come, and at once that all parts have been read and
/// may be copied over by the next call. Sums are not copied over before the next call's start barrier, which this rank
/// reaches only after it has taken them.
template <class Memory>
constexpr bool meet_copies(Memory& m, const Call& call, const Lane& lane) {
  m.settled(lane);
  return barrier(m, call, lane, 1, Stage::middle);
}

/// The whole of it, the copies made by the lanes themselves. `in` and `out` may be one.
template <class Memory>
constexpr bool copied_two_stage(Memory& m, const Call& call, const Lane& lane) {
  const std::uint32_t stride = shard_packs(m.capacity().packs, call.ranks);
  for (int k = 1; k < call.ranks; ++k) {
    const int owner = later(call, k);
    const Shard shard = shard_of(call.packs, call.ranks, owner);
    for (std::uint32_t j = lane.first; j < shard.count; j += lane.step)
      m.write(m.peer(owner).parts + slot(0, call.ranks, call.rank, stride, j), m.take(call, shard.begin + j));
  }
  if (!sum_copies(m, call, lane)) return false;
  const Shard mine = shard_of(call.packs, call.ranks, call.rank);
  for (int k = 1; k < call.ranks; ++k)
    for (std::uint32_t j = lane.first; j < mine.count; j += lane.step)
      m.write(m.peer(later(call, k)).gathered + mine.begin + j, m.read(m.own().reduced + j));
  if (!meet_copies(m, call, lane)) return false;
  for (int k = 1; k < call.ranks; ++k) {
    const Shard shard = shard_of(call.packs, call.ranks, later(call, k));
    for (std::uint32_t j = lane.first; j < shard.count; j += lane.step)
      m.put(call, shard.begin + j, m.read(m.own().gathered + shard.begin + j));
  }
  return true;
}

}  // namespace specstep::comm::protocol
