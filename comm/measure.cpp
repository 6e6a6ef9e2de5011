// Values to check allreduces with, and statistics of their times.
#include "comm/measure.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {

namespace {

std::size_t width_of(DType dtype) {
  if (dtype == DType::f32) return 4;
  if (dtype == DType::f16 || dtype == DType::bf16) return 2;
  throw Unsupported(formatted("sums of {} values on devices; there are f32, f16, bf16", name_of(dtype)));
}

/// A whole number of at most 2048 as an f16: one bit of sign, five of exponent with bias 15, ten of fraction.
std::uint32_t f16_bits(int value) {
  if (value == 0) return 0;
  const auto f32 = std::bit_cast<std::uint32_t>(static_cast<float>(std::abs(value)));
  return (value < 0 ? 0x8000U : 0U) | ((f32 >> 13) & 0x3FFU) | (((f32 >> 23) - 112U) << 10);
}

double f16_value(std::uint32_t bits) {
  const double sign = (bits & 0x8000U) != 0 ? -1 : 1;
  const auto exponent = static_cast<int>((bits >> 10) & 0x1FU);
  const double fraction = static_cast<double>(bits & 0x3FFU) / 1024;
  if (exponent == 31) return fraction == 0 ? sign * HUGE_VAL : NAN;
  return exponent == 0 ? sign * std::ldexp(fraction, -14) : sign * std::ldexp(1 + fraction, exponent - 15);
}

std::uint32_t encoded(int value, DType dtype) {
  if (dtype == DType::f16) return f16_bits(value);
  return std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> (dtype == DType::f32 ? 0 : 16);
}

double decoded(std::uint32_t bits, DType dtype) {
  if (dtype == DType::f16) return f16_value(bits);
  return static_cast<double>(std::bit_cast<float>(bits << (dtype == DType::f32 ? 0 : 16)));
}

template <class F>
std::vector<std::byte> encoded_values(std::int64_t count, DType dtype, F&& value) {
  const std::size_t width = width_of(dtype);
  std::vector<std::byte> out(static_cast<std::size_t>(count) * width);
  for (std::int64_t i = 0; i < count; ++i) {
    const std::uint32_t bits = encoded(value(i), dtype);
    std::memcpy(out.data() + static_cast<std::size_t>(i) * width, &bits, width);
  }
  return out;
}

int sum_at(int ranks, std::int64_t index, int round) {
  int sum = 0;
  for (int r = 0; r < ranks; ++r) sum += check_value(r, ranks, index, round);
  return sum;
}

}  // namespace

std::string hang_hint(const MeasuredBackend& backend) {
  const auto waited = [](const std::string& text) {
    return text.find("waited in vain") != std::string::npos || text.find("not done within") != std::string::npos;
  };
  if (std::none_of(backend.failures.begin(), backend.failures.end(), waited)) return "";
  return "a rank is missing, or what it wrote does not arrive: ACS redirection of peer traffic (lspci: ACSCtl; off on "
         "the switch's ports) and unusable P2P (NCCL_P2P_DISABLE=1 to see) hang so, often for one number of ranks "
         "only; "
         "a GPU at full use and low power is spinning in such a wait";
}

Timing timing_of(std::vector<double> seconds, int calls) {
  std::sort(seconds.begin(), seconds.end());
  const std::size_t n = seconds.size();
  const auto at = [&](std::size_t i) { return seconds[i] / calls; };
  // The 99th percentile by nearest rank.
  const auto last = static_cast<std::size_t>(std::ceil(0.99 * static_cast<double>(n))) - 1;
  return {at(0), n % 2 == 1 ? at(n / 2) : (at(n / 2 - 1) + at(n / 2)) / 2, at(last), calls, static_cast<int>(n)};
}

int check_value(int rank, int ranks, std::int64_t index, int round) {
  const int most = 256 / std::max(ranks, 1);
  auto x = static_cast<std::uint32_t>(index) * 2654435761U + static_cast<std::uint32_t>(rank) * 40503U +
           static_cast<std::uint32_t>(round) * 2246822519U;
  x ^= x >> 15;
  x *= 2246822519U;
  x ^= x >> 13;
  return static_cast<int>(x % static_cast<std::uint32_t>(2 * most + 1)) - most;
}

std::vector<std::byte> check_values(int rank, int ranks, std::int64_t count, DType dtype, int round) {
  return encoded_values(count, dtype, [&](std::int64_t i) { return check_value(rank, ranks, i, round); });
}

std::vector<std::byte> check_sums(int ranks, std::int64_t count, DType dtype, int round) {
  return encoded_values(count, dtype, [&](std::int64_t i) { return sum_at(ranks, i, round); });
}

SumFaults faults_of_sums(const std::vector<std::byte>& got, int ranks, DType dtype, int round, double rounding) {
  const std::size_t width = width_of(dtype);
  const auto count = static_cast<std::int64_t>(got.size() / width);
  SumFaults out;
  const std::vector<std::byte> expected = check_sums(ranks, count, dtype, round);
  if (got == expected) return out;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::byte* at = got.data() + static_cast<std::size_t>(i) * width;
    if (std::memcmp(at, expected.data() + static_cast<std::size_t>(i) * width, width) == 0) continue;
    std::uint32_t bits = 0;
    std::memcpy(&bits, at, width);
    const int sum = sum_at(ranks, i, round);
    const double error = std::abs(decoded(bits, dtype) - sum);
    double magnitude = 0;
    for (int r = 0; r < ranks; ++r) magnitude += std::abs(check_value(r, ranks, i, round));
    // What is not a number is wrong as well.
    if (!(rounding > 0 && error <= rounding * magnitude)) ++out.wrong;
    out.largest_error = std::isnan(error) ? HUGE_VAL : std::max(out.largest_error, error);
  }
  return out;
}

}  // namespace specstep::comm
