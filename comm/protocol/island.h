// Islands: sums inside them first, so that little crosses between them.
//
// The vector has a shard for each place of an island. The member at a place sums its shard inside its island, in the
// order of the ranks; that fp32 sum crosses to the members at the same place of the other islands, unrounded; each adds
// the islands' sums in the order of the plan, rounds once, and gives the result to its island. Members at one place add
// the same numbers in the same order, so all ranks end with equal bits. fp32 crosses, not the inputs: it takes
// 4/value_bytes shards for each island, where inputs would take as many as an island has members.
//
// By writes alone, the data its own flag. Two halves are enough: whoever ends a call has the sum of its first pack,
// into which every rank has put its part, so every rank has come to that call and has ended the one before, emptied
// slots included; only then is the half of the one before written again.
#pragma once

#include "comm/protocol/memory.h"
#include "comm/protocol/wide.h"

namespace specstep::comm::protocol {

namespace detail {

/// One lane of a call.
template <class Memory>
struct IslandLane {
  using Sum = typename Memory::Sum;

  constexpr IslandLane(Memory& memory, const Call& c, const Lane& l)
      : m(memory),
        plan(memory.islands()),
        call(c),
        lane(l),
        island(plan.island_of[c.rank]),
        place(plan.place_of[c.rank]),
        half(half_of(l.epoch)),
        stride(shard_packs(memory.capacity().packs, plan.members)),
        mine(shard_of(c.packs, plan.members, place)) {}

  /// To the members of this island, their shards of the input.
  constexpr void scatter() {
    for (int k = 1; k < plan.members; ++k) {
      const int to = place_after(k);
      const Shard shard = shard_of(call.packs, plan.members, to);
      for (std::uint32_t j = lane.first; j < shard.count; j += lane.step)
        m.store_pack(m.peer(plan.rank(island, to)).partials + at(place, j),
                     to_wire(m.take(call, shard.begin + j), Sum::negative_zeros));
    }
  }

  /// The island's sum of this lane's packs, to this place of every island.
  constexpr bool reduce_inside() {
    for (std::uint32_t j = lane.first; j < mine.count; j += lane.step) {
      Pack got[Memory::most_ranks];
      const auto other = [&](int rank) {
        return rank < call.ranks && rank != call.rank && plan.island_of[rank] == island;
      };
      const auto slot_of = [&](int rank) { return m.own().partials + at(plan.place_of[rank], j); };
      const auto itself = [](int rank) { return rank; };
      if (!take_those(m, other, itself, {0, Stage::partial, mine.begin + j}, slot_of, got)) return false;
      const Pack own = m.take(call, mine.begin + j);
      Sum sum;
      for (int rank = 0; rank < Memory::most_ranks; ++rank) {
        Pack one = got[rank];  // a copy: what an address is taken of would not stay in registers
        if (rank == call.rank) one = own;
        if (rank < call.ranks && plan.island_of[rank] == island) sum.add(one);
      }
      for (int k = 0; k < plan.islands; ++k) {
        const int to = island + k >= plan.islands ? island + k - plan.islands : island + k;
        for (int w = 0; w < wide_packs<Sum>; ++w)
          m.store_pack(m.peer(plan.rank(to, place)).crossings + crossing(island, j, w),
                       to_wire(wide_pack(sum, w), negative_zero));
      }
    }
    return true;
  }

  /// The sum of the islands' sums, rounded, to the members of this island.
  constexpr bool add_islands() {
    for (std::uint32_t j = lane.first; j < mine.count; j += lane.step) {
      Sum sum;
      for (int from = 0; from < plan.islands; ++from)
        if (!add_crossing(from, j, sum)) return false;
      const Pack result = sum.rounded();
      for (int k = 1; k < plan.members; ++k)
        m.store_pack(m.peer(plan.rank(island, place_after(k))).results + at(place, j),
                     to_wire(result, Sum::negative_zeros));
      m.put(call, mine.begin + j, result);
    }
    return true;
  }

  /// The other members' results. Shards are equally long but for the last ones: one look sees the j-th pack of each.
  constexpr bool gather() {
    for (std::uint32_t j = lane.first; j < shard_packs(call.packs, plan.members); j += lane.step) {
      Pack got[Memory::most_ranks];
      const auto other = [&](int from) {
        return from < plan.members && from != place && j < shard_of(call.packs, plan.members, from).count;
      };
      const auto slot_of = [&](int from) { return m.own().results + at(from, j); };
      const auto member = [&](int from) { return plan.rank(island, from); };
      if (!take_those(m, other, member, {0, Stage::result, j}, slot_of, got)) return false;
      for (int from = 0; from < Memory::most_ranks; ++from)
        if (other(from))
          m.put(call, shard_of(call.packs, plan.members, from).begin + j, from_wire(got[from], Sum::negative_zeros));
    }
    return true;
  }

  constexpr int place_after(int k) const { return place + k >= plan.members ? place + k - plan.members : place + k; }
  constexpr std::size_t at(int from, std::uint32_t j) const {
    return slot(half, plan.members, from, stride, j) * words_per_pack;
  }
  constexpr std::size_t crossing(int from, std::uint32_t j, int w) const {
    return (slot(half, plan.islands, from, stride, j) * most_wide_packs + static_cast<std::size_t>(w)) * words_per_pack;
  }
  /// This island's own sum lies in its slot already.
  constexpr bool add_crossing(int from, std::uint32_t j, Sum& sum) {
    Pack got[std::size_t{wide_packs<Sum>}];
    const auto ready = [&] {
      bool all = true;
      for (int w = 0; w < wide_packs<Sum>; ++w) got[w] = m.load_pack(m.own().crossings + crossing(from, j, w));
      for (int w = 0; w < wide_packs<Sum>; ++w) all = all && arrived(got[w]);
      return all;
    };
    if (!wait_for(m, {plan.rank(from, place), Stage::crossing, mine.begin + j}, ready)) return false;
    for (int w = 0; w < wide_packs<Sum>; ++w) {
      m.store_pack(m.own().crossings + crossing(from, j, w), Pack{});
      add_wide(sum, w, got[w]);
    }
    return true;
  }

  Memory& m;
  const IslandPlan& plan;
  const Call& call;
  const Lane& lane;
  int island, place;
  std::uint32_t half, stride;
  Shard mine;
};

}  // namespace detail

/// `in` and `out` may be one: a lane has the same places in every shard.
template <class Memory>
constexpr bool push_islands(Memory& m, const Call& call, const Lane& lane) {
  detail::IslandLane<Memory> work(m, call, lane);
  work.scatter();
  m.settled(lane);
  return work.reduce_inside() && work.add_islands() && work.gather();
}

}  // namespace specstep::comm::protocol
