// Two stages on fp8: inputs go to their owners as fp8, owners sum them in fp32, and the sums come back as fp8. Not
// exact; see error_bound.
//
// Groups are shared out over the ranks. Owners put their own part and their own sums through the same codec, so that
// all ranks end with equal bits.
//
// By writes alone. As with push_two_stage two halves are enough: the first group always has an owner, whose sum
// everybody needs and who needs everybody's part.
#pragma once

#include "comm/protocol/groups.h"

namespace specstep::comm::protocol {

namespace detail {

/// One lane of a call.
template <class Memory>
struct GroupLane {
  using Cells = GroupCells<Memory>;
  using Sum = typename Memory::Sum;

  constexpr GroupLane(Memory& memory, const Call& c, const Lane& l)
      : call(c),
        cells(memory, c, l),
        first(l.first / static_cast<std::uint32_t>(Cells::lanes)),
        step(l.step / static_cast<std::uint32_t>(Cells::lanes)),
        half(half_of(l.epoch)),
        groups(groups_of(c.packs, values_of_pack<Sum>)),
        stride(shard_packs(groups_of(memory.capacity().packs, values_per_pack), c.ranks)) {}

  /// Words of a slot's first pack; stage 0 holds parts, stage 1 sums.
  constexpr std::size_t at(std::uint32_t stage, int source, std::uint32_t g) const {
    return slot(2 * stage + half, call.ranks, source, stride, g) * packs_of_slot * words_per_pack;
  }

  constexpr void scatter() {
    for (int k = 1; k < call.ranks; ++k) {
      const int owner = later(call, k);
      const Shard shard = shard_of(groups, call.ranks, owner);
      for (std::uint32_t g = first; g < shard.count; g += step)
        cells.send(owner, at(0, call.rank, g), cells.encoded(cells.taken(shard.begin + g)));
    }
  }
  constexpr bool reduce() {
    const Shard mine = shard_of(groups, call.ranks, call.rank);
    for (std::uint32_t g = first; g < mine.count; g += step) {
      const std::uint32_t group = mine.begin + g;
      typename Cells::Values sum;
      for (int source = 0; source < call.ranks; ++source) {
        typename Cells::Encoded part;
        if (source == call.rank)
          part = cells.encoded(cells.taken(group));
        else if (!cells.receive(at(0, source, g), {source, Stage::partial, cells.pack_of(group, 0)}, part))
          return false;
        cells.add(part, sum);
      }
      const typename Cells::Encoded result = cells.encoded(sum);
      for (int k = 1; k < call.ranks; ++k) cells.send(later(call, k), at(1, call.rank, g), result);
      typename Cells::Values mended;
      cells.add(result, mended);
      cells.give(group, mended);
    }
    return true;
  }
  constexpr bool gather() {
    for (int k = 1; k < call.ranks; ++k) {
      const int owner = later(call, k);
      const Shard shard = shard_of(groups, call.ranks, owner);
      for (std::uint32_t g = first; g < shard.count; g += step) {
        typename Cells::Encoded result;
        typename Cells::Values values;
        const std::uint32_t group = shard.begin + g;
        if (!cells.receive(at(1, owner, g), {owner, Stage::result, cells.pack_of(group, 0)}, result)) return false;
        cells.add(result, values);
        cells.give(group, values);
      }
    }
    return true;
  }

  const Call& call;
  Cells cells;
  std::uint32_t first, step;
  std::uint32_t half, groups, stride;
};

}  // namespace detail

/// Lanes of a group come in whole: lane.step is a multiple of lanes_of_group. `in` and `out` may be one.
template <class Memory>
constexpr bool quantised_two_stage(Memory& m, const Call& call, const Lane& lane) {
  detail::GroupLane<Memory> work(m, call, lane);
  work.scatter();
  m.settled(lane);
  return work.reduce() && work.gather();
}

}  // namespace specstep::comm::protocol
