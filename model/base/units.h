// Text for people: bytes, seconds, rates. Inside the program everything is seconds and bytes.
#pragma once

#include <string>

namespace specstep {

inline constexpr double kib = 1024.0;
inline constexpr double mib = 1024.0 * kib;
inline constexpr double gib = 1024.0 * mib;
inline constexpr double us = 1e-6;
inline constexpr double ms = 1e-3;

/// Binary sizes: "512 B", "42.0 KiB", "70.9 GiB".
std::string bytes_text(double bytes);
/// "27.3 us", "11.2 ms", "2.86 s".
std::string seconds_text(double seconds);
/// Digits in groups of three: "14,336".
std::string grouped(long long value);

}  // namespace specstep
