// The 16 bytes that allreduce protocols move at a time, what they look like on the wire, and how they are summed.
//
// Everything here is constexpr without allocation or exceptions, so that the same source serves host and device.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace specstep::comm::protocol {

/// Eight bf16 values as four 32-bit words; the low half of a word is the first of its two values.
struct Pack {
  std::uint32_t word[4] = {0, 0, 0, 0};
  constexpr bool operator==(const Pack&) const = default;
};
inline constexpr int words_per_pack = 4;
inline constexpr int values_per_pack = 8;

/// The word that means "nothing has arrived": two bf16 +0.
inline constexpr std::uint32_t sentinel = 0;
/// What a sender writes for a word of +0s, which would look like the sentinel: -0s, the same values. Two of bf16 or f16
/// in a word, or one of f32.
inline constexpr std::uint32_t negative_zero_halves = 0x80008000U;
inline constexpr std::uint32_t negative_zero = 0x80000000U;

/// Replaces words that look like the sentinel. Values stay equal; a sum that starts at +0 is the same bit for bit.
constexpr Pack to_wire(Pack pack, std::uint32_t negative_zeros) {
  for (std::uint32_t& word : pack.word)
    if (word == sentinel) word = negative_zeros;
  return pack;
}

/// Undoes to_wire for sums, which never hold -0 (see Bf16Sum::rounded).
constexpr Pack from_wire(Pack pack, std::uint32_t negative_zeros) {
  for (std::uint32_t& word : pack.word)
    if (word == negative_zeros) word = sentinel;
  return pack;
}

/// True when every word has arrived. Each word is looked at: a 16-byte store need not land whole over PCIe.
constexpr bool arrived(const Pack& pack) {
  for (const std::uint32_t word : pack.word)
    if (word == sentinel) return false;
  return true;
}

constexpr float widen(std::uint32_t bf16) { return std::bit_cast<float>(bf16 << 16); }

/// Round to nearest even; NaN stays a quiet NaN; -0 becomes +0, so that a result has one bit pattern for zero.
constexpr std::uint32_t round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return (bits >> 16) | 0x40U;
  const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
  return rounded == 0x8000U ? 0U : rounded;
}

/// fp32 sums of the eight values of a pack, added in the order of the calls and rounded once at the end.
struct Bf16Sum {
  static constexpr std::uint32_t negative_zeros = negative_zero_halves;
  float value[values_per_pack] = {0, 0, 0, 0, 0, 0, 0, 0};

  constexpr void add(const Pack& pack) {
    for (std::size_t w = 0; w < words_per_pack; ++w) {
      value[2 * w] += widen(pack.word[w] & 0xFFFFU);
      value[2 * w + 1] += widen(pack.word[w] >> 16);
    }
  }
  constexpr Pack rounded() const {
    Pack out;
    for (std::size_t w = 0; w < words_per_pack; ++w)
      out.word[w] = round_to_bf16(value[2 * w]) | (round_to_bf16(value[2 * w + 1]) << 16);
    return out;
  }
};

/// The same for the four f32 values of a pack, which need no rounding.
struct F32Sum {
  static constexpr std::uint32_t negative_zeros = negative_zero;
  float value[words_per_pack] = {0, 0, 0, 0};

  constexpr void add(const Pack& pack) {
    for (std::size_t w = 0; w < words_per_pack; ++w) value[w] += std::bit_cast<float>(pack.word[w]);
  }
  constexpr Pack rounded() const {
    Pack out;
    for (std::size_t w = 0; w < words_per_pack; ++w) {
      const auto bits = std::bit_cast<std::uint32_t>(value[w]);
      out.word[w] = bits == negative_zero ? 0U : bits;
    }
    return out;
  }
};

}  // namespace specstep::comm::protocol
