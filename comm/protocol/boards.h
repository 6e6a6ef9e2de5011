// One-shot by boards: every rank writes its input once, where all can read it, and reads those of the others.
#pragma once

#include "comm/protocol/memory.h"

namespace specstep::comm::protocol {

/// The longest message in pairs. Longer ones are shown with flags, which costs a fence in every block and then half the
/// bytes. Measured on two H200 over PCIe 5: both take 20 us at 224 KiB with two ranks, 20 us at 56 KiB with four.
constexpr std::uint32_t packs_in_pairs(const Capacity& c) {
  const std::uint32_t most = 12'288U / static_cast<std::uint32_t>(c.ranks > 1 ? c.ranks - 1 : 1);
  return c.packs < most ? c.packs : most;
}
/// Blocks that show a message with flags: their fences come one behind the other.
inline constexpr unsigned blocks_with_flags = 8;

/// Lanes that follow each other write and read whole lines: of so many packs the first halves lie side by side, and
/// behind them the second ones.
inline constexpr std::uint32_t packs_of_row = 32;
/// Pairs of {4 bytes of data, epoch} on a board of so many packs.
constexpr std::size_t pairs_of_board(std::uint32_t packs) {
  constexpr std::size_t pairs_of_pack = 4;
  return (std::size_t{packs} + packs_of_row - 1) / packs_of_row * packs_of_row * pairs_of_pack;
}

namespace detail {

/// Where a board has the first half of a pack, in pairs; the second one is `second_half` further.
inline constexpr std::size_t pairs_of_half = 2;
inline constexpr std::size_t second_half = packs_of_row * pairs_of_half;
constexpr std::size_t place_on_board(std::uint32_t i) {
  const std::size_t row = i / packs_of_row;
  return (std::size_t{2} * packs_of_row * row + i % packs_of_row) * pairs_of_half;
}

/// Pairs of {4 bytes of data, epoch}: with many readers nobody could empty a slot.
template <class Memory>
constexpr bool boards_in_pairs(Memory& m, const Call& call, const Lane& lane) {
  const std::size_t half = half_of(lane.epoch) * pairs_of_board(packs_in_pairs(m.capacity()));
  const auto at = [&](std::uint32_t i) { return half + place_on_board(i); };
  for (std::uint32_t i = lane.first; i < call.packs; i += lane.step)
    m.store_halves(m.own().board + at(i), m.own().board + at(i) + second_half, m.take(call, i), lane.epoch);
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
        const auto* pairs = m.peer(source).board + at(i);
        seen[source] = m.load_halves(pairs, pairs + second_half, lane.epoch, got[source]);
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

/// The data as it is, and then a flag of the block.
template <class Memory>
constexpr bool boards_with_flags(Memory& m, const Call& call, const Lane& lane) {
  const auto at = [&](std::uint32_t i) { return slot(half_of(lane.epoch), 1, 0, m.capacity().packs, i); };
  for (std::uint32_t i = lane.first; i < call.packs; i += lane.step) m.write(m.own().shown + at(i), m.take(call, i));
  m.settled(lane);
  if (!barrier(m, call, lane, 0, Stage::start)) return false;
  for (std::uint32_t i = lane.first; i < call.packs; i += lane.step) {
    Pack got[Memory::most_ranks];
    for (int source = 0; source < Memory::most_ranks; ++source)
      if (source < call.ranks && source != call.rank) got[source] = m.read(m.peer(source).shown + at(i));
    m.put(call, i, sum_of<Memory>(call, got, m.take(call, i)));
  }
  return true;
}

}  // namespace detail

/// Sums are in the order of the ranks. Two halves are enough: whoever ends a call knows that every rank has begun it,
/// and a rank that begins it has read all that was shown in the call before. `in` and `out` may be one.
template <class Memory>
constexpr bool boards(Memory& m, const Call& call, const Lane& lane) {
  return call.packs <= packs_in_pairs(m.capacity()) ? detail::boards_in_pairs(m, call, lane)
                                                    : detail::boards_with_flags(m, call, lane);
}

}  // namespace specstep::comm::protocol
