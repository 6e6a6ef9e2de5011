// Two-stage allreduces: each rank sums one shard and rounds it once; all gather the shards.
#pragma once

#include "comm/protocol/one_shot.h"

namespace specstep::comm::protocol {

/// Reduce-scatter and all-gather by reading. Two barriers: the middle one says that shards are summed and, at once,
/// that all inputs have been read. The summed shard is not written again before the next call's start barrier, which a
/// peer reaches only after it has gathered. A lane exposes its places in every shard: those that peers' lanes of the
/// same number read.
template <class Memory>
constexpr bool pull_two_stage(Memory& m, const Call& call, const Lane& lane) {
  m.settled(lane);
  for (int owner = 0; owner < call.ranks; ++owner) {
    const Shard shard = shard_of(call.packs, call.ranks, owner);
    for (std::uint32_t j = lane.first; j < shard.count; j += lane.step) m.expose(call, shard.begin + j);
  }
  if (!barrier(m, call, lane, 0, Stage::start)) return false;
  const Shard mine = shard_of(call.packs, call.ranks, call.rank);
  for (std::uint32_t j = lane.first; j < mine.count; j += lane.step) {
    const Pack sum = rotated_sum(m, call, [&](int source) { return m.peer(source).input + mine.begin + j; });
    m.write(m.own().reduced + j, sum);
    m.put(call, mine.begin + j, sum);
  }
  if (!barrier(m, call, lane, 1, Stage::middle)) return false;
  for (int k = 1; k < call.ranks; ++k) {
    const int owner = later(call, k);
    const Shard shard = shard_of(call.packs, call.ranks, owner);
    for (std::uint32_t j = lane.first; j < shard.count; j += lane.step)
      m.put(call, shard.begin + j, m.read(m.peer(owner).reduced + j));
  }
  return true;
}

namespace detail {

/// Slots of the two-stage inboxes of a call.
template <class Memory>
struct ShardSlots {
  std::uint32_t half;
  int ranks;
  std::uint32_t stride;
  constexpr ShardSlots(Memory& m, const Call& call, const Lane& lane)
      : half(half_of(lane.epoch)), ranks(call.ranks), stride(shard_packs(m.capacity().packs, call.ranks)) {}
  constexpr std::size_t operator()(int source, std::uint32_t j) const {
    return slot(half, ranks, source, stride, j) * words_per_pack;
  }
};

/// Sums this lane's packs of the own shard and pushes them to everybody else.
template <class Memory>
constexpr bool reduce_and_push(Memory& m, const Call& call, const Lane& lane) {
  const ShardSlots<Memory> at(m, call, lane);
  const Shard mine = shard_of(call.packs, call.ranks, call.rank);
  for (std::uint32_t j = lane.first; j < mine.count; j += lane.step) {
    Pack got[Memory::most_ranks];
    const Pack own = to_wire(m.take(call, mine.begin + j), Memory::Sum::negative_zeros);
    const auto from = [&](int source) { return m.own().partials + at(source, j); };
    if (!take_arrivals(m, call, {0, Stage::partial, mine.begin + j}, from, got)) return false;
    const Pack result = sum_of<Memory>(call, got, own);
    for (int k = 1; k < Memory::most_ranks; ++k)
      if (k < call.ranks)
        m.store_pack(m.peer(later(call, k)).results + at(call.rank, j), to_wire(result, Memory::Sum::negative_zeros));
    m.put(call, mine.begin + j, result);
  }
  return true;
}

}  // namespace detail

/// Reduce-scatter and all-gather by writing, without a barrier: in both stages the data is its own flag. A result never
/// holds -0, so what was put in for the sentinel can be taken out again and all ranks end with equal bits. A lane has
/// the same places in every shard, so `in` and `out` may be one.
template <class Memory>
constexpr bool push_two_stage(Memory& m, const Call& call, const Lane& lane) {
  const detail::ShardSlots<Memory> at(m, call, lane);
  for (std::uint32_t j = lane.first; j < shard_packs(call.packs, call.ranks); j += lane.step) {
    // All loads before the first store: one trip to memory instead of one for each rank.
    Pack wire[Memory::most_ranks];
    const auto sends = [&](int k) {
      return k < call.ranks && j < shard_of(call.packs, call.ranks, later(call, k)).count;
    };
    for (int k = 1; k < Memory::most_ranks; ++k)
      if (sends(k))
        wire[k] = to_wire(m.take(call, shard_of(call.packs, call.ranks, later(call, k)).begin + j),
                          Memory::Sum::negative_zeros);
    for (int k = 1; k < Memory::most_ranks; ++k)
      if (sends(k)) m.store_pack(m.peer(later(call, k)).partials + at(call.rank, j), wire[k]);
  }
  m.settled(lane);
  if (!detail::reduce_and_push(m, call, lane)) return false;
  // Shards are equally long but for the last ones: one look sees the j-th pack of each.
  for (std::uint32_t j = lane.first; j < shard_packs(call.packs, call.ranks); j += lane.step) {
    Pack got[Memory::most_ranks];
    const auto awaited = [&](int owner) {
      return owner < call.ranks && owner != call.rank && j < shard_of(call.packs, call.ranks, owner).count;
    };
    Awaited what{0, Stage::result, j};
    const auto ready = [&] {
      bool all = true;
      for (int owner = 0; owner < Memory::most_ranks; ++owner)
        if (awaited(owner)) got[owner] = m.load_pack(m.own().results + at(owner, j));
      for (int owner = Memory::most_ranks - 1; owner >= 0; --owner)
        if (awaited(owner) && !arrived(got[owner])) {
          what.rank = owner;
          what.index = shard_of(call.packs, call.ranks, owner).begin + j;
          all = false;
        }
      return all;
    };
    if (!wait_for(m, what, ready)) return false;
    for (int owner = 0; owner < Memory::most_ranks; ++owner) {
      if (!awaited(owner)) continue;
      m.store_pack(m.own().results + at(owner, j), Pack{});
      m.put(call, shard_of(call.packs, call.ranks, owner).begin + j,
            from_wire(got[owner], Memory::Sum::negative_zeros));
    }
  }
  return true;
}

}  // namespace specstep::comm::protocol
