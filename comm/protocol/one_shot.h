// One-shot allreduces: each rank gets every input and sums them itself, in the order of the ranks.
#pragma once

#include "comm/protocol/memory.h"

namespace specstep::comm::protocol {

/// Pushes each pack to all other ranks; the data is its own flag. A slot is emptied as soon as it is read, which is
/// before the next-but-one call can write it. One's own data is summed as the others get it, so that all ranks sum the
/// same bits. `in` and `out` may be one.
template <class Memory>
constexpr bool push_sentinel(Memory& m, const Call& call, const Lane& lane) {
  const auto at = [&](int source, std::uint32_t i) {
    return slot(half_of(lane.epoch), call.ranks, source, m.capacity().packs, i) * words_per_pack;
  };
  for (std::uint32_t i = lane.first; i < call.packs; i += lane.step) {
    const Pack wire = to_wire(m.take(call, i), Memory::Sum::negative_zeros);
    for (int k = 1; k < Memory::most_ranks; ++k)
      if (k < call.ranks) m.store_pack(m.peer(later(call, k)).packs + at(call.rank, i), wire);
  }
  m.settled(lane);
  for (std::uint32_t i = lane.first; i < call.packs; i += lane.step) {
    Pack got[Memory::most_ranks];
    const Pack own = to_wire(m.take(call, i), Memory::Sum::negative_zeros);
    const auto from = [&](int source) { return m.own().packs + at(source, i); };
    if (!take_arrivals(m, call, {0, Stage::data, i}, from, got)) return false;
    m.put(call, i, sum_of<Memory>(call, got, own));
  }
  return true;
}

/// Pushes pairs of {4 bytes of data, epoch}; a pair is valid when it carries the epoch of the call. Nothing is emptied.
/// A slot that no call has touched for exactly 2^32 - 1 calls would look valid; no inbox lives that long unused.
/// `in` and `out` may be one.
template <class Memory>
constexpr bool push_ll(Memory& m, const Call& call, const Lane& lane) {
  const auto at = [&](int source, std::uint32_t i) {
    return slot(half_of(lane.epoch), call.ranks, source, m.capacity().packs, i) * words_per_pack;
  };
  for (std::uint32_t i = lane.first; i < call.packs; i += lane.step) {
    const Pack pack = m.take(call, i);
    for (int k = 1; k < Memory::most_ranks; ++k)
      if (k < call.ranks) m.store_line(m.peer(later(call, k)).lines + at(call.rank, i), pack, lane.epoch);
  }
  m.settled(lane);
  for (std::uint32_t i = lane.first; i < call.packs; i += lane.step) {
    Pack got[Memory::most_ranks];
    const Pack own = m.take(call, i);
    const auto from = [&](int source) { return m.own().lines + at(source, i); };
    if (!take_lines(m, call, {0, Stage::data, i}, lane.epoch, from, got)) return false;
    m.put(call, i, sum_of<Memory>(call, got, own));
  }
  return true;
}

/// The sum of a pack of every rank, read where `at` says. Each rank begins to read with another one; the order of the
/// sum is that of the ranks.
template <class Memory, class At>
constexpr Pack rotated_sum(Memory& m, const Call& call, At at) {
  Pack got[Memory::most_ranks];
  for (int k = 0; k < Memory::most_ranks; ++k)
    if (k < call.ranks) got[k] = m.read(at(later(call, k)));
  typename Memory::Sum sum;
  for (int source = 0; source < Memory::most_ranks; ++source)
    if (source < call.ranks) sum.add(got[source >= call.rank ? source - call.rank : source - call.rank + call.ranks]);
  return sum.rounded();
}

/// Reads all inputs between two barriers: the first says that inputs are ready, the second that they may change again.
/// Inputs are put where peers can read them first.
template <class Memory>
constexpr bool pull_one_stage(Memory& m, const Call& call, const Lane& lane) {
  m.settled(lane);
  for (std::uint32_t i = lane.first; i < call.packs; i += lane.step) m.expose(call, i);
  if (!barrier(m, call, lane, 0, Stage::start)) return false;
  for (std::uint32_t i = lane.first; i < call.packs; i += lane.step)
    m.put(call, i, rotated_sum(m, call, [&](int source) { return m.peer(source).input + i; }));
  return barrier(m, call, lane, 1, Stage::end);
}

}  // namespace specstep::comm::protocol
