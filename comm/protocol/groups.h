// Groups of 256 values as fp8 with one scale: how lanes hold them, and how they travel.
//
// A group travels as 16 packs of fp8 and one that holds the scale; each pack is 16 values of one lane. The data is its
// own flag; slots are emptied as soon as they are read.
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

/// What one lane holds of groups. Lanes that follow each other hold the cells of a group between them.
template <class Memory>
struct GroupCells {
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

  constexpr GroupCells(Memory& memory, const Call& c, const Lane& l)
      : m(memory), call(c), member(static_cast<int>(l.first % static_cast<std::uint32_t>(lanes))) {}

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

  constexpr std::size_t cell_at(int cell) const {
    return static_cast<std::size_t>(cell * lanes + member) * words_per_pack;
  }
  static constexpr std::size_t scale_at = std::size_t{cells_of_group} * words_per_pack;

  /// `place`: words before the slot's first pack.
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

  Memory& m;
  const Call& call;
  int member;
};

}  // namespace detail

}  // namespace specstep::comm::protocol
