// Values that checks of allreduces add up, and statistics of times.
#include "comm/measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <set>

namespace specstep::comm {
namespace {

std::uint32_t bits_at(const std::vector<std::byte>& values, std::size_t index, std::size_t width) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, values.data() + index * width, width);
  return bits;
}

TEST(CheckValues, AreWholeNumbersThatEverySumHoldsExactly) {
  for (const int ranks : {1, 2, 3, 8}) {
    std::set<int> seen;
    for (std::int64_t i = 0; i < 5000; ++i) {
      int sum = 0;
      for (int r = 0; r < ranks; ++r) {
        const int value = check_value(r, ranks, i, 0);
        seen.insert(value);
        sum += std::abs(value);
      }
      EXPECT_LE(sum, 256);  // bf16 holds whole numbers up to 256
    }
    EXPECT_GT(seen.size(), 50U);
    EXPECT_TRUE(seen.contains(0));
    EXPECT_LT(*seen.begin(), 0);
  }
}

TEST(CheckValues, DifferBetweenRanksAndRounds) {
  int same_rank = 0, same_round = 0;
  for (std::int64_t i = 0; i < 1000; ++i) {
    same_rank += check_value(0, 8, i, 0) == check_value(1, 8, i, 0) ? 1 : 0;
    same_round += check_value(0, 8, i, 0) == check_value(0, 8, i, 1) ? 1 : 0;
  }
  EXPECT_LT(same_rank, 100);
  EXPECT_LT(same_round, 100);
}

// Encodings by hand: 1 is 0x3F80 in bf16 and 0x3C00 in f16; every value decodes to itself by the formats' definitions.
TEST(CheckValues, AreEncodedInTheirType) {
  constexpr std::int64_t count = 3000;
  const auto f32 = check_values(2, 3, count, DType::f32, 5);
  const auto bf16 = check_values(2, 3, count, DType::bf16, 5);
  const auto f16 = check_values(2, 3, count, DType::f16, 5);
  for (std::size_t i = 0; i < count; ++i) {
    const int expected = check_value(2, 3, static_cast<std::int64_t>(i), 5);
    EXPECT_EQ(std::bit_cast<float>(bits_at(f32, i, 4)), static_cast<float>(expected));
    EXPECT_EQ(std::bit_cast<float>(bits_at(bf16, i, 2) << 16), static_cast<float>(expected));
    const std::uint32_t half = bits_at(f16, i, 2);
    const int exponent = static_cast<int>((half >> 10) & 31U);
    const double magnitude = half == 0 ? 0 : std::ldexp(1 + (half & 1023U) / 1024.0, exponent - 15);
    EXPECT_EQ((half & 0x8000U) != 0 ? -magnitude : magnitude, expected);
  }
}

TEST(SumFaults, OfTheRightSumsAreNone) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const SumFaults faults = faults_of_sums(check_sums(8, 999, dtype, 3), 8, dtype, 3, 0);
    EXPECT_EQ(faults.wrong, 0) << name_of(dtype);
    EXPECT_EQ(faults.largest_error, 0) << name_of(dtype);
  }
}

TEST(SumFaults, AreCounted) {
  auto sums = check_sums(4, 100, DType::f32, 0);
  const float right = std::bit_cast<float>(bits_at(sums, 17, 4));
  const float off = right + 3;
  std::memcpy(sums.data() + 17 * 4, &off, 4);
  const float nan = std::nanf("");
  std::memcpy(sums.data() + 20 * 4, &nan, 4);
  const SumFaults faults = faults_of_sums(sums, 4, DType::f32, 0, 0);
  EXPECT_EQ(faults.wrong, 2);
  EXPECT_TRUE(std::isinf(faults.largest_error));
  EXPECT_EQ(faults_of_sums(check_sums(4, 100, DType::f32, 1), 4, DType::f32, 0, 0).wrong > 50, true);
}

TEST(SumFaults, WithinTheRoundingOfACodecAreNone) {
  auto sums = check_sums(4, 100, DType::f32, 0);
  double magnitude = 0;
  for (int r = 0; r < 4; ++r) magnitude += std::abs(check_value(r, 4, 9, 0));
  const auto with_error = [&](double share) {
    auto off = sums;
    const float value = std::bit_cast<float>(bits_at(sums, 9, 4)) + static_cast<float>(share * magnitude);
    std::memcpy(off.data() + 9 * 4, &value, 4);
    return faults_of_sums(off, 4, DType::f32, 0, 0.1);
  };
  EXPECT_EQ(with_error(0.09).wrong, 0);
  EXPECT_NEAR(with_error(0.09).largest_error, 0.09 * magnitude, 1e-4 * magnitude);
  EXPECT_EQ(with_error(0.11).wrong, 1);
}

TEST(TimingOf, IsOfOneCall) {
  const Timing t = timing_of({4, 1, 3, 2}, 10);
  EXPECT_DOUBLE_EQ(t.least, 0.1);
  EXPECT_DOUBLE_EQ(t.median, 0.25);
  EXPECT_DOUBLE_EQ(t.p99, 0.4);
  EXPECT_EQ(t.replays, 4);
  std::vector<double> many;
  for (int i = 200; i > 0; --i) many.push_back(i);
  EXPECT_DOUBLE_EQ(timing_of(many, 1).p99, 198);
  EXPECT_DOUBLE_EQ(timing_of({5}, 1).median, 5);
}

}  // namespace
}  // namespace specstep::comm
