// Islands with rows: each row is shared out over the places of an island by itself.
#pragma once

#include "comm/protocol/island.h"
#include "comm/protocol/rows.h"

namespace specstep::comm::protocol {

namespace detail {

/// One lane of a call; slots and crossings are those of calls without rows.
template <class Memory>
struct RowIslands {
  using Sum = typename Memory::Sum;
  constexpr RowIslands(Memory& memory, const Call& c, const Rows& r, const RowLane& l)
      : m(memory), call(c), rows(r), at(l), work(memory, c, l.lane), shards(r, work.plan.members) {}

  constexpr std::uint32_t pack_of(int place, std::uint32_t row, std::uint32_t j) const {
    return row * rows.packs + shards.of(place).begin + j;
  }

  /// The island's sum of one place, to this place of every island.
  constexpr bool reduce_inside(std::uint32_t row, std::uint32_t j) {
    const IslandPlan& plan = work.plan;
    Pack got[Memory::most_ranks];
    const auto inside = [&](int rank) { return rank < call.ranks && plan.island_of[rank] == work.island; };
    const auto other = [&](int rank) { return inside(rank) && rank != call.rank; };
    const auto slot_of = [&](int rank) {
      return m.own().partials + work.at(plan.place_of[rank], shards.place(row, j));
    };
    const std::uint32_t i = pack_of(work.place, row, j);
    if (!take_those(
            m, other, [](int rank) { return rank; }, {0, Stage::partial, i}, slot_of, got))
      return false;
    const Pack own = m.take(call, i);
    Sum sum;
    for (int rank = 0; rank < Memory::most_ranks; ++rank)
      if (inside(rank)) sum.add(rank == call.rank ? own : got[rank]);
    for (int k = 0; k < plan.islands; ++k) {
      const int to = work.island + k >= plan.islands ? work.island + k - plan.islands : work.island + k;
      for (int w = 0; w < wide_packs<Sum>; ++w)
        m.store_pack(m.peer(plan.rank(to, work.place)).crossings + work.crossing(work.island, shards.place(row, j), w),
                     to_wire(wide_pack(sum, w), negative_zero));
    }
    return true;
  }

  /// The rounded sum of the islands' sums of one place, to every member of this island and to itself.
  constexpr bool add_islands(std::uint32_t row, std::uint32_t j) {
    Sum sum;
    for (int from = 0; from < work.plan.islands; ++from)
      if (!work.add_crossing(from, shards.place(row, j), sum)) return false;
    const Pack result = to_wire(sum.rounded(), Sum::negative_zeros);
    for (int k = 0; k < work.plan.members; ++k)
      m.store_pack(
          m.peer(work.plan.rank(work.island, work.place_after(k))).results + work.at(work.place, shards.place(row, j)),
          result);
    return true;
  }

  Memory& m;
  const Call& call;
  const Rows& rows;
  const RowLane& at;
  IslandLane<Memory> work;
  RowShards shards;
};

}  // namespace detail

template <class Memory, class Epilogue>
constexpr bool rows_push_islands(Memory& m, const Call& call, const Rows& rows, const RowLane& at, Epilogue& epilogue,
                                 bool ok) {
  detail::RowIslands<Memory> lane(m, call, rows, at);
  const IslandPlan& plan = lane.work.plan;
  const detail::RowStages<Memory> stages{m, call, lane.shards, at, lane.work.place};
  if (ok)
    stages.scatter([&](int to, std::uint32_t row, std::uint32_t j, const Pack& pack) {
      m.store_pack(
          m.peer(plan.rank(lane.work.island, to)).partials + lane.work.at(lane.work.place, lane.shards.place(row, j)),
          to_wire(pack, Memory::Sum::negative_zeros));
    });
  m.settled(at.lane);
  detail::each_place(lane.shards, at, lane.work.place,
                     [&](std::uint32_t row, std::uint32_t j) { ok = ok && lane.reduce_inside(row, j); });
  detail::each_place(lane.shards, at, lane.work.place,
                     [&](std::uint32_t row, std::uint32_t j) { ok = ok && lane.add_islands(row, j); });
  return stages.finish(epilogue, ok, [&](int from, std::uint32_t row, std::uint32_t j, Pack& got) {
    const Awaited what{plan.rank(lane.work.island, from), Stage::result, lane.pack_of(from, row, j)};
    return stages.take(what, m.own().results + lane.work.at(from, lane.shards.place(row, j)), got);
  });
}

}  // namespace specstep::comm::protocol
