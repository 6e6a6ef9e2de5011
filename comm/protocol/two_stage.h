// Two-stage allreduces: each rank sums one shard and rounds it once; all gather the shards.
#pragma once

#include "comm/protocol/one_shot.h"

namespace specstep::comm::protocol {

/// Reduce-scatter and all-gather by reading. Two barriers: the middle one says that shards are summed and, at once,
/// that all inputs have been read. The summed shard is not written again before the next call's start barrier, which a
/// peer reaches only after it has gathered.
template <class Memory>
constexpr bool pull_two_stage(Memory& m, const Call& call, const Lane& lane) {
  if (!barrier(m, call, lane, 0, Stage::start)) return false;
  const Shard mine = shard_of(call.packs, call.ranks, call.rank);
  for (std::uint32_t j = lane.first; j < mine.count; j += lane.step) {
    Sum sum;
    for (int source = 0; source < call.ranks; ++source) sum.add(m.read(m.peer(source).input + mine.begin + j));
    m.write(m.own().reduced + j, sum.rounded());
  }
  if (!barrier(m, call, lane, 1, Stage::middle)) return false;
  for (int k = 0; k < call.ranks; ++k) {
    const int owner = (call.rank + k) % call.ranks;
    const Shard shard = shard_of(call.packs, call.ranks, owner);
    for (std::uint32_t j = lane.first; j < shard.count; j += lane.step)
      m.write(call.out + shard.begin + j, m.read(m.peer(owner).reduced + j));
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
    Sum sum;
    for (int source = 0; source < call.ranks; ++source) {
      auto* inbox = m.own().partials + at(source, j);
      Pack got;
      const auto ready = [&] {
        got = m.load_pack(inbox);
        return arrived(got);
      };
      if (!wait_for(m, {source, Stage::partial, mine.begin + j}, ready)) return false;
      m.store_pack(inbox, Pack{});
      sum.add(got);
    }
    const Pack result = sum.rounded();
    for (int k = 1; k < call.ranks; ++k)
      m.store_pack(m.peer((call.rank + k) % call.ranks).results + at(call.rank, j), to_wire(result));
    m.write(call.out + mine.begin + j, result);
  }
  return true;
}

}  // namespace detail

/// Reduce-scatter and all-gather by writing, without a barrier: in both stages the data is its own flag. A result never
/// holds -0, so what was put in for the sentinel can be taken out again and all ranks end with equal bits.
template <class Memory>
constexpr bool push_two_stage(Memory& m, const Call& call, const Lane& lane) {
  const detail::ShardSlots<Memory> at(m, call, lane);
  for (int k = 0; k < call.ranks; ++k) {
    const int owner = (call.rank + k) % call.ranks;
    const Shard shard = shard_of(call.packs, call.ranks, owner);
    for (std::uint32_t j = lane.first; j < shard.count; j += lane.step)
      m.store_pack(m.peer(owner).partials + at(call.rank, j), to_wire(m.read(call.in + shard.begin + j)));
  }
  if (!detail::reduce_and_push(m, call, lane)) return false;
  for (int k = 1; k < call.ranks; ++k) {
    const int owner = (call.rank + k) % call.ranks;
    const Shard shard = shard_of(call.packs, call.ranks, owner);
    for (std::uint32_t j = lane.first; j < shard.count; j += lane.step) {
      auto* inbox = m.own().results + at(owner, j);
      Pack got;
      const auto ready = [&] {
        got = m.load_pack(inbox);
        return arrived(got);
      };
      if (!wait_for(m, {owner, Stage::result, shard.begin + j}, ready)) return false;
      m.store_pack(inbox, Pack{});
      m.write(call.out + shard.begin + j, from_wire(got));
    }
  }
  return true;
}

/// One lane of a call. False when a wait was given up.
template <class Memory>
constexpr bool run_lane(Memory& m, Protocol protocol, const Call& call, const Lane& lane) {
  switch (protocol) {
    case Protocol::push_sentinel:
      return push_sentinel(m, call, lane);
    case Protocol::push_ll:
      return push_ll(m, call, lane);
    case Protocol::pull_one_stage:
      return pull_one_stage(m, call, lane);
    case Protocol::pull_two_stage:
      return pull_two_stage(m, call, lane);
    case Protocol::push_two_stage:
      return push_two_stage(m, call, lane);
  }
  return false;
}

}  // namespace specstep::comm::protocol
