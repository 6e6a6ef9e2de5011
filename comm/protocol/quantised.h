// Two stages on fp8: inputs go to their owners as fp8, owners sum them in fp32, and the sums come back as fp8. Not
// exact; see error_bound.
//
// 256 values that follow each other are a group with one scale. A group travels as 16 packs of fp8 and one that holds
// the scale; each pack is 16 values of one lane. Owners put their own part and their own sums through the same codec,
// so that all ranks end with equal bits.
//
// By writes alone, the data its own flag; slots are emptied as soon as they are read. As with push_two_stage two halves
// are enough: the first group always has an owner, whose sum everybody needs and who needs everybody's part.
#pragma once

#include "comm/protocol/fp8.h"
#include "comm/protocol/memory.h"
#include "comm/protocol/wide.h"

namespace specstep::comm::protocol {

inline constexpr int values_of_cell = 16;
inline constexpr int cells_of_group = 16;
inline constexpr int packs_of_slot = cells_of_group + 1;
/// What stands for a word of four fp8 zeros on the wire: negative ones.
inline constexpr std::uint32_t negative_zero_quarters = 0x80808080U;

/// Groups of a call whose packs hold `values` values each.
constexpr std::uint32_t groups_of(std::uint32_t packs, int values) {
  const auto packs_of_group = static_cast<std::uint32_t>(cells_of_group * values_of_cell / values);
  return (packs + packs_of_group - 1) / packs_of_group;
}

/// A bound of what a value of the result is off: `sum` is that of the ranks' magnitudes of the value, `largest` that of
/// the ranks' largest magnitudes in its group. Rounded once from each rank and once as a sum; the type's own rounding
/// comes on top.
constexpr double error_bound(double sum, double largest) {
  const double first = fp8_relative_error * sum + fp8_floor_error * largest;
  const double most = largest * (1 + fp8_relative_error);
  return first + fp8_relative_error * (sum + first) + fp8_floor_error * most;
}

namespace detail {

/// One lane of a call. Lanes that follow each other hold the cells of a group between them.
template <class Memory>
struct GroupLane {
  using Sum = typename Memory::Sum;
  static constexpr int lanes = Memory::lanes_of_group;
  static constexpr int cells = cells_of_group / lanes;  // of this lane
  static constexpr int packs = values_of_cell / values_of_pack<Sum>;

  struct Values {
    float of[std::size_t{cells}][values_of_cell] = {};
  };
  struct Encoded {
    Pack cell[std::size_t{cells}];
    std::uint32_t scale = 0;
  };

  constexpr GroupLane(Memory& memory, const Call& c, const Lane& l)
      : m(memory),
        call(c),
        first(l.first / static_cast<std::uint32_t>(lanes)),
        step(l.step / static_cast<std::uint32_t>(lanes)),
        member(static_cast<int>(l.first % static_cast<std::uint32_t>(lanes))),
        half(half_of(l.epoch)),
        groups(groups_of(c.packs, values_of_pack<Sum>)),
        stride(shard_packs(groups_of(memory.capacity().packs, values_per_pack), c.ranks)) {}

  constexpr std::uint32_t pack_of(std::uint32_t group, int cell) const {
    return (group * cells_of_group + static_cast<std::uint32_t>(cell * lanes + member)) *
           static_cast<std::uint32_t>(packs);
  }
  /// What lies beyond the call is zeros.
  constexpr Values taken(std::uint32_t group) const {
    Values out;
    for (int c = 0; c < cells; ++c)
      for (int p = 0; p < packs; ++p) {
        const std::uint32_t i = pack_of(group, c) + static_cast<std::uint32_t>(p);
        if (i >= call.packs) continue;
        Sum values;
        values.add(m.take(call, i));
        for (int v = 0; v < values_of_pack<Sum>; ++v) out.of[c][p * values_of_pack<Sum> + v] = values.value[v];
      }
    return out;
  }
  constexpr void give(std::uint32_t group, const Values& values) {
    for (int c = 0; c < cells; ++c)
      for (int p = 0; p < packs; ++p) {
        const std::uint32_t i = pack_of(group, c) + static_cast<std::uint32_t>(p);
        if (i >= call.packs) continue;
        Sum sum;
        for (int v = 0; v < values_of_pack<Sum>; ++v) sum.value[v] = values.of[c][p * values_of_pack<Sum> + v];
        m.put(call, i, sum.rounded());
      }
  }

  /// All lanes of the group together.
  constexpr Encoded encoded(const Values& values) const {
    std::uint32_t largest = 0;
    for (int c = 0; c < cells; ++c)
      for (int v = 0; v < values_of_cell; ++v) {
        const std::uint32_t bits = magnitude_bits(values.of[c][v]);
        largest = bits > largest ? bits : largest;
      }
    Encoded out;
    out.scale = scale_bits(m.greatest(largest));
    const float factor = one_over(out.scale);
    for (int c = 0; c < cells; ++c)
      for (int v = 0; v < values_of_cell; ++v)
        out.cell[c].word[v / 4] |= to_fp8(values.of[c][v] * factor) << (8 * (v % 4));
    return out;
  }
  /// values += what was encoded; exact but for the addition.
  static constexpr void add(const Encoded& encoded, Values& values) {
    const auto scale = std::bit_cast<float>(encoded.scale);
    for (int c = 0; c < cells; ++c)
      for (int v = 0; v < values_of_cell; ++v)
        values.of[c][v] += from_fp8((encoded.cell[c].word[v / 4] >> (8 * (v % 4))) & 0xFFU) * scale;
  }

  /// Words of a slot's first pack; stage 0 holds parts, stage 1 sums.
  constexpr std::size_t at(std::uint32_t stage, int source, std::uint32_t g) const {
    return slot(2 * stage + half, call.ranks, source, stride, g) * packs_of_slot * words_per_pack;
  }
  constexpr std::size_t cell_at(int cell) const {
    return static_cast<std::size_t>(cell * lanes + member) * words_per_pack;
  }
  static constexpr std::size_t scale_at = std::size_t{cells_of_group} * words_per_pack;

  constexpr void send(int to, std::size_t place, const Encoded& encoded) {
    auto* words = m.peer(to).cells + place;
    for (int c = 0; c < cells; ++c) m.store_pack(words + cell_at(c), to_wire(encoded.cell[c], negative_zero_quarters));
    const std::uint32_t s = encoded.scale;
    if (member == 0) m.store_pack(words + scale_at, {{s, s, s, s}});
  }
  /// All lanes of the group together: the scale is emptied when all have it.
  constexpr bool receive(std::size_t place, const Awaited& what, Encoded& out) {
    auto* words = m.own().cells + place;
    Pack scale;
    const auto ready = [&] {
      bool all = true;
      for (int c = 0; c < cells; ++c) out.cell[c] = m.load_pack(words + cell_at(c));
      scale = m.load_pack(words + scale_at);
      for (int c = 0; c < cells; ++c) all = all && arrived(out.cell[c]);
      return all && arrived(scale);
    };
    if (!m.group_agrees(wait_for(m, what, ready))) return false;
    for (int c = 0; c < cells; ++c) m.store_pack(words + cell_at(c), Pack{});
    if (member == 0) m.store_pack(words + scale_at, Pack{});
    out.scale = scale.word[0];
    return true;
  }

  constexpr void scatter() {
    for (int k = 1; k < call.ranks; ++k) {
      const int owner = later(call, k);
      const Shard shard = shard_of(groups, call.ranks, owner);
      for (std::uint32_t g = first; g < shard.count; g += step)
        send(owner, at(0, call.rank, g), encoded(taken(shard.begin + g)));
    }
  }
  constexpr bool reduce() {
    const Shard mine = shard_of(groups, call.ranks, call.rank);
    for (std::uint32_t g = first; g < mine.count; g += step) {
      const std::uint32_t group = mine.begin + g;
      Values sum;
      for (int source = 0; source < call.ranks; ++source) {
        Encoded part;
        if (source == call.rank)
          part = encoded(taken(group));
        else if (!receive(at(0, source, g), {source, Stage::partial, pack_of(group, 0)}, part))
          return false;
        add(part, sum);
      }
      const Encoded result = encoded(sum);
      for (int k = 1; k < call.ranks; ++k) send(later(call, k), at(1, call.rank, g), result);
      Values mended;
      add(result, mended);
      give(group, mended);
    }
    return true;
  }
  constexpr bool gather() {
    for (int k = 1; k < call.ranks; ++k) {
      const int owner = later(call, k);
      const Shard shard = shard_of(groups, call.ranks, owner);
      for (std::uint32_t g = first; g < shard.count; g += step) {
        Encoded result;
        Values values;
        const std::uint32_t group = shard.begin + g;
        if (!receive(at(1, owner, g), {owner, Stage::result, pack_of(group, 0)}, result)) return false;
        add(result, values);
        give(group, values);
      }
    }
    return true;
  }

  Memory& m;
  const Call& call;
  std::uint32_t first, step;
  int member;
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
