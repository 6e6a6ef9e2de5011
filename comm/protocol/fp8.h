// Floats as fp8 (e4m3: four exponent bits, three of mantissa) under a scale that is a power of two.
//
// Everything is worked out in bits, so that host and devices of any generation agree, and zeros, small integers and
// powers of two come through unchanged.
#pragma once

#include <bit>
#include <cstdint>

namespace specstep::comm::protocol {

/// Rounding a normal number to four significant bits moves it by at most this part of itself: half a step of 1/8 beside
/// a value just below 1 + 1/16.
inline constexpr double fp8_relative_error = 1.0 / 17;
/// Numbers too small for that move by at most this part of the largest of their group: half of the least step, 2^-10,
/// under a scale that puts the largest above 224.
inline constexpr double fp8_floor_error = 1.0 / (1024.0 * 224.0);

/// The bits of a magnitude, which order as magnitudes do: infinity and NaN come last.
constexpr std::uint32_t magnitude_bits(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7FFFFFFFU; }

/// Bits of the scale of a group, from its largest magnitude: the least power of two, of normal ones, that keeps it at
/// most 448, the largest e4m3. Never 0. NaN for a group that holds an infinity or a NaN, so that all of it becomes NaN.
constexpr std::uint32_t scale_bits(std::uint32_t largest) {
  const std::uint32_t exponent = largest >> 23;
  if (exponent == 255) return 0x7FC00000U;
  if (largest == 0) return 0x3F800000U;
  const std::uint32_t above = (largest & 0x7FFFFFU) > 0x600000U ? 1U : 0U;  // 448 is 1.75 * 2^8
  const std::uint32_t power = exponent + above;
  return (power > 9 ? power - 8 : 1U) << 23;
}

/// One over a scale, exact.
constexpr float one_over(std::uint32_t scale) {
  const std::uint32_t exponent = scale >> 23;
  return exponent >= 254 ? 0.0F : std::bit_cast<float>((254U - exponent) << 23);
}

/// Nearest e4m3, ties to even; magnitudes are at most 448.
constexpr std::uint32_t to_fp8(float value) {
  const std::uint32_t sign = (std::bit_cast<std::uint32_t>(value) >> 24) & 0x80U;
  const std::uint32_t bits = magnitude_bits(value);
  constexpr std::uint32_t least_normal = 121U << 23;  // 2^-6
  if (bits < least_normal) {
    // Steps of 2^-9. Adding 2^23 rounds to whole ones; eight of them are the least normal number.
    const float steps = std::bit_cast<float>(bits) * 512.0F + 8388608.0F;
    return sign | (std::bit_cast<std::uint32_t>(steps) & 0xFU);
  }
  const std::uint32_t rounded = (bits + 0x7FFFFU + ((bits >> 20) & 1U)) >> 20;
  const std::uint32_t code = rounded - (120U << 3);
  return sign | (code > 0x7EU ? 0x7EU : code);
}

constexpr float from_fp8(std::uint32_t code) {
  const std::uint32_t sign = (code & 0x80U) << 24, exponent = (code >> 3) & 0xFU, mantissa = code & 7U;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) / 512.0F;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | ((exponent + 120U) << 23) | (mantissa << 20));
}

}  // namespace specstep::comm::protocol
