// Random numbers by counter: any number of a stream can be made alone, so each rank makes its own part of a model.
#pragma once

#include <array>
#include <cstdint>

namespace specstep::host {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// Philox-4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key);

/// The key of a seed.
inline PhiloxKey philox_key(std::uint64_t seed) {
  return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)};
}

/// Uniform in [-1, 1), with the 24 bits that a float holds.
inline float signed_unit(std::uint32_t bits) { return static_cast<float>(bits >> 8) * 0x1p-23F - 1.0F; }

/// Uniform in [0, 1), 53 bits, of the first two words.
inline double unit(const PhiloxCounter& words) {
  const std::uint64_t bits = (std::uint64_t{words[0]} << 32) | words[1];
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace specstep::host
