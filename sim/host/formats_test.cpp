// Formats against their lists of representable numbers.
#include "sim/host/formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace specstep::host {
namespace {

// Every value of e4m3 by its definition (OCP 8-bit floating point 1.0): bias 7, 448 largest, no infinity.
std::vector<float> e4m3_values() {
  std::vector<float> out;
  for (int code = 0; code < 127; ++code) {
    const int exponent = code >> 3;
    const int digits = code & 7;
    const double v = exponent == 0 ? digits * std::pow(2.0, -9) : (8 + digits) * std::pow(2.0, exponent - 10);
    out.push_back(static_cast<float>(v));
    out.push_back(static_cast<float>(-v));
  }
  return out;
}

float nearest(const std::vector<float>& values, float x) {
  float best = values.front();
  for (const float v : values)
    if (std::fabs(v - x) < std::fabs(best - x)) best = v;
  return best;
}

TEST(Formats, Fp8IsTheNearestOfItsValues) {
  const std::vector<float> values = e4m3_values();
  for (const float v : values) EXPECT_EQ(rounded(v, DType::fp8), v);
  for (float x = -500.0F; x < 500.0F; x += 0.777F)
    EXPECT_EQ(std::fabs(rounded(x, DType::fp8) - x), std::fabs(nearest(values, x) - x)) << x;
  for (float x = -0.1F; x < 0.1F; x += 0.00037F)
    EXPECT_EQ(std::fabs(rounded(x, DType::fp8) - x), std::fabs(nearest(values, x) - x)) << x;
}

TEST(Formats, E2m1IsTheNearestOfItsValues) {
  const std::vector<float> values{0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.5F, -1, -1.5F, -2, -3, -4, -6};
  for (float x = -7.0F; x < 7.0F; x += 0.0137F) EXPECT_EQ(rounded(x, DType::mxfp4), nearest(values, x)) << x;
  EXPECT_EQ(rounded(2.5F, DType::nvfp4), 2);  // ties to the even digit
  EXPECT_EQ(rounded(3.5F, DType::nvfp4), 4);
  EXPECT_EQ(rounded(0.25F, DType::nvfp4), 0);
}

TEST(Formats, Bf16TiesToEven) {
  EXPECT_EQ(rounded(1.0F + 0x1p-8F, DType::bf16), 1.0F);
  EXPECT_EQ(rounded(1.0F + 0x1.8p-7F, DType::bf16), 1.0F + 0x1p-6F);
  EXPECT_EQ(rounded(1.0F + 0x1.01p-8F, DType::bf16), 1.0F + 0x1p-7F);
  EXPECT_EQ(rounded(0.1F, DType::f32), 0.1F);
  EXPECT_EQ(rounded(1.0F + 0x1p-11F, DType::f16), 1.0F);
  EXPECT_EQ(rounded(70000.0F, DType::f16), 65504.0F);
}

TEST(Formats, Int4HasFifteenLevelsInAGroup) {
  std::vector<float> values;
  for (int i = 0; i < 64; ++i) values.push_back(std::sin(static_cast<float>(i)) * (i < 32 ? 1.0F : 0.01F));
  const std::vector<float> before = values;
  store(values, {DType::int4, 32, DType::f32}, 1);
  for (int g = 0; g < 2; ++g) {
    float most = 0;
    std::set<float> levels;
    for (std::size_t i = 0; i < 32; ++i) {
      const std::size_t at = static_cast<std::size_t>(g) * 32 + i;
      most = std::max(most, std::fabs(before[at]));
      levels.insert(values[at]);
    }
    EXPECT_LE(levels.size(), 15U);
    for (std::size_t i = 0; i < 32; ++i) {
      const std::size_t at = static_cast<std::size_t>(g) * 32 + i;
      EXPECT_LE(std::fabs(values[at] - before[at]), most / 7 / 2 * 1.0001F);  // half a step of this group's own scale
    }
  }
}

TEST(Formats, Mxfp4ScalesArePowersOfTwo) {
  std::vector<float> values{0.9F, 0.3F, -0.1F, 0.05F};
  store(values, {DType::mxfp4, 4, DType::fp8}, 1);
  // floor(log2 0.9) = -1, so the scale is 2^-3: 7.2 clamps to 6, 2.4 to 2, -0.8 to -1, 0.4 to 0.5 steps.
  EXPECT_EQ(values, (std::vector<float>{0.75F, 0.25F, -0.125F, 0.0625F}));
}

TEST(Formats, Nvfp4HasAScaleInE4m3AndOneForTheMatrix) {
  std::vector<float> values(16, 0.0F);
  values[0] = 3;
  values[1] = 1.5F;
  store(values, {DType::nvfp4, 16, DType::fp8}, 6 * 448);  // bound: the matrix's own scale is 1
  EXPECT_EQ(values[0], 3);  // 3 / 6 = 0.5 is an e4m3 scale, so both values are representable
  EXPECT_EQ(values[1], 1.5F);
  EXPECT_EQ(values[2], 0);
}

TEST(Formats, WithoutGroupsTheMatrixHasOneScale) {
  std::vector<float> a{0.5F, -1.0F};
  std::vector<float> b{0.01F, 0.02F};
  store(a, {DType::int8, 0, DType::bf16}, 1);
  store(b, {DType::int8, 0, DType::bf16}, 1);
  EXPECT_EQ(a[1], -1.0F);
  EXPECT_FLOAT_EQ(b[0], 1.0F / 127);
  EXPECT_FLOAT_EQ(b[1], 3.0F / 127);
}

}  // namespace
}  // namespace specstep::host
