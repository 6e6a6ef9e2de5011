// What a pack looks like on the wire, how it is rounded, and how calls are counted.
#include "comm/protocol/pack.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "comm/protocol/call.h"
#include "comm/protocol/fp8.h"

namespace specstep::comm::protocol {
namespace {

TEST(Pack, AGenuineZeroIsNotTheSentinel) {
  const Pack zeros;
  EXPECT_FALSE(arrived(zeros));
  EXPECT_TRUE(arrived(to_wire(zeros, negative_zero_halves)));
  EXPECT_EQ(from_wire(to_wire(zeros, negative_zero_halves), negative_zero_halves), zeros);
  Bf16Sum sum;
  sum.add(to_wire(zeros, negative_zero_halves));
  EXPECT_EQ(sum.rounded(), zeros);  // -0 added to +0 is +0
}

TEST(Pack, EveryWordMustHaveArrived) {
  const Pack whole{{1, 2, 3, 4}};
  EXPECT_TRUE(arrived(whole));
  for (int w = 0; w < words_per_pack; ++w) {
    Pack torn = whole;
    torn.word[w] = sentinel;
    EXPECT_FALSE(arrived(torn)) << w;
  }
}

TEST(Pack, ResultsHoldNoNegativeZero) {
  EXPECT_EQ(round_to_bf16(-0.0F), 0U);
  EXPECT_EQ(round_to_bf16(-std::numeric_limits<float>::denorm_min()), 0U);
}

/// Nearest bf16 by distance, ties to the even one: worked out in double, not with the bits.
std::uint32_t nearest(float value) {
  const std::uint32_t low = std::bit_cast<std::uint32_t>(value) >> 16;
  const double below = std::abs(static_cast<double>(value) - static_cast<double>(widen(low)));
  const double above = std::abs(static_cast<double>(widen(low + 1)) - static_cast<double>(value));
  if (below == above) return low % 2 == 0 ? low : low + 1;
  return below < above ? low : low + 1;
}

TEST(Pack, RoundsToTheNearestAndTiesToEven) {
  std::mt19937 random(7);
  std::uniform_real_distribution<float> values(-100.0F, 100.0F);
  for (int k = 0; k < 100'000; ++k) {
    const float value = values(random);
    ASSERT_EQ(round_to_bf16(value), nearest(value)) << value;
  }
  EXPECT_EQ(round_to_bf16(std::bit_cast<float>(0x3F808000U)), 0x3F80U);  // 1 + 2^-8, a tie
  EXPECT_EQ(round_to_bf16(std::bit_cast<float>(0x3F818000U)), 0x3F82U);
  EXPECT_EQ(round_to_bf16(std::numeric_limits<float>::infinity()), 0x7F80U);
  EXPECT_TRUE(std::isnan(widen(round_to_bf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(widen(round_to_bf16(std::bit_cast<float>(0x7F800001U)))));  // the payload's low bits go
}

/// All e4m3 magnitudes but NaN, from their definition.
double fp8_magnitude(int code) {
  const int exponent = code >> 3, mantissa = code & 7;
  return exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
}

TEST(Fp8, CodesAreThoseOfE4m3) {
  for (std::uint32_t code = 0; code < 0x7F; ++code) {
    const double magnitude = fp8_magnitude(static_cast<int>(code));
    EXPECT_EQ(static_cast<double>(from_fp8(code)), magnitude) << code;
    EXPECT_EQ(static_cast<double>(from_fp8(code | 0x80U)), -magnitude) << code;
    EXPECT_EQ(to_fp8(static_cast<float>(magnitude)), code);
    EXPECT_EQ(to_fp8(static_cast<float>(-magnitude)), code | 0x80U);
  }
  EXPECT_EQ(fp8_magnitude(0x7E), 448);
}

TEST(Fp8, RoundsToTheNearestWithinTheStatedError) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> exponents(-12.0F, 8.8F);
  for (int k = 0; k < 20'000; ++k) {
    const float value = std::min(std::exp2(exponents(random)), 448.0F);
    const auto exact = static_cast<double>(value);
    double least = 1e9;
    for (int code = 0; code < 0x7F; ++code) least = std::min(least, std::abs(fp8_magnitude(code) - exact));
    const double off = std::abs(static_cast<double>(from_fp8(to_fp8(value))) - exact);
    ASSERT_EQ(off, least) << value;
    ASSERT_LE(off, fp8_relative_error * exact + std::ldexp(1.0, -10)) << value;
  }
  EXPECT_EQ(to_fp8(17.0F), to_fp8(16.0F)) << "a tie goes to the even code";
}

TEST(Fp8, ScalesKeepTheLargestInReach) {
  std::mt19937 random(5);
  for (int k = 0; k < 20'000; ++k) {
    const std::uint32_t bits = random() & 0x7FFFFFFFU;
    const auto value = std::bit_cast<float>(bits);
    const auto scale = std::bit_cast<float>(scale_bits(bits));
    if (!std::isfinite(value)) {
      ASSERT_TRUE(std::isnan(scale));
      continue;
    }
    const double ratio = static_cast<double>(value) / static_cast<double>(scale);
    ASSERT_LE(ratio, 448) << value;
    if (scale > std::numeric_limits<float>::min()) {
      ASSERT_GT(ratio, 224) << value;
    }
    ASSERT_EQ(static_cast<double>(one_over(scale_bits(bits))), 1 / static_cast<double>(scale)) << value;
  }
  EXPECT_EQ(scale_bits(0), std::bit_cast<std::uint32_t>(1.0F));
}

TEST(Epoch, WrapsWithoutZeroAndKeepsTheHalvesInTurn) {
  std::uint32_t epoch = 0xFFFFFFFBU;
  for (int call = 0; call < 12; ++call) {
    const std::uint32_t next = next_epoch(epoch);
    EXPECT_NE(next, 0U);
    EXPECT_NE(half_of(next), half_of(epoch)) << epoch;
    EXPECT_FALSE(reached(epoch, next)) << epoch;
    EXPECT_TRUE(reached(next, next));
    EXPECT_TRUE(reached(next, epoch)) << epoch;  // a peer that is ahead has come too
    epoch = next;
  }
  EXPECT_LT(epoch, 16U);
}

TEST(Shards, CoverAMessageOnce) {
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (std::uint32_t packs = 1; packs <= 40; ++packs) {
      std::uint32_t next = 0;
      for (int owner = 0; owner < ranks; ++owner) {
        const Shard shard = shard_of(packs, ranks, owner);
        EXPECT_LE(shard.count, shard_packs(packs, ranks));
        if (shard.count == 0) continue;
        EXPECT_EQ(shard.begin, next);
        next += shard.count;
      }
      EXPECT_EQ(next, packs) << ranks;
    }
}

}  // namespace
}  // namespace specstep::comm::protocol
