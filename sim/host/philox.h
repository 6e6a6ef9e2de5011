// Random numbers by counter: any number of a stream can be made alone, so each rank makes its own part of a model.
#pragma once

#include <array>
#include <cstdint>

namespace specstep::host {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// Philox-4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): ten rounds
/// of two 32 x 32 bit products; constants of the paper. Also called on devices.
constexpr PhiloxCounter philox(PhiloxCounter c, PhiloxKey key) {
  constexpr std::uint64_t multiply_0 = 0xD2511F53;
  constexpr std::uint64_t multiply_1 = 0xCD9E8D57;
  constexpr std::uint32_t weyl_0 = 0x9E3779B9;  // golden ratio
  constexpr std::uint32_t weyl_1 = 0xBB67AE85;  // sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = multiply_0 * c[0];
    const std::uint64_t b = multiply_1 * c[2];
    c = {static_cast<std::uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += weyl_0;
    key[1] += weyl_1;
  }
  return c;
}

/// The key of a seed.
constexpr PhiloxKey philox_key(std::uint64_t seed) {
  return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
}

/// Uniform in [-1, 1), with the 24 bits that a float holds.
constexpr float signed_unit(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-23F - 1.0F; }

/// Uniform in [0, 1), 53 bits, of the first two words.
constexpr double unit(const PhiloxCounter& words) {
  const std::uint64_t bits = (std::uint64_t{words[0]} << 32) | words[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace specstep::host
