// fp32 sums that travel unrounded: as many packs of four floats as the values of a pack need.
#pragma once

#include "comm/protocol/pack.h"

namespace specstep::comm::protocol {

inline constexpr int most_wide_packs = 2;

/// Values of a pack, and the packs of fp32 that they fill.
template <class Sum>
inline constexpr int values_of_pack = static_cast<int>(sizeof(Sum::value) / sizeof(float));
template <class Sum>
inline constexpr int wide_packs = values_of_pack<Sum> / words_per_pack;

template <class Sum>
constexpr Pack wide_pack(const Sum& sum, int k) {
  Pack out;
  for (int w = 0; w < words_per_pack; ++w)
    out.word[w] = std::bit_cast<std::uint32_t>(sum.value[k * words_per_pack + w]);
  return out;
}

/// A sum that began at +0 is never -0, so adding one to +0 keeps its bits, and a -0 that stood for the sentinel is
/// gone.
template <class Sum>
constexpr void add_wide(Sum& sum, int k, const Pack& pack) {
  for (int w = 0; w < words_per_pack; ++w) sum.value[k * words_per_pack + w] += std::bit_cast<float>(pack.word[w]);
}

}  // namespace specstep::comm::protocol
