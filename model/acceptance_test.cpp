// Acceptance in all notations against published lengths.
#include "model/acceptance.h"

#include <gtest/gtest.h>

#include <cmath>

namespace specstep {
namespace {

AcceptanceSpec conditional(std::vector<double> p) {
  return {.conditional = std::move(p), .survival = {}, .rate = {}, .length = {}};
}

TEST(Acceptance, LengthIsOnePlusSurvivals) {
  EXPECT_DOUBLE_EQ(accept_length(conditional({0.65, 0.60}), 2), 1 + 0.65 + 0.65 * 0.60);
  EXPECT_DOUBLE_EQ(accept_length({.survival = {0.645, 0.393, 0.24}}, 3), 2.278);
}

// A constant rate is a geometric sum: (1 - p^(K+1)) / (1 - p).
TEST(Acceptance, ConstantRateIsGeometric) {
  for (const double p : {0.0, 0.3, 0.8})
    EXPECT_NEAR(accept_length({.rate = p}, 5), (1 - std::pow(p, 6)) / (1 - p), 1e-12);
  EXPECT_DOUBLE_EQ(accept_length({.rate = 1.0}, 5), 6);
}

TEST(Acceptance, LengthGivesSurvivalsThatSumToIt) {
  for (const double length : {1.0, 1.7, 2.5, 3.999}) {
    double sum = 1;
    double last = 1;
    for (const double s : survival_of({.length = length}, 3)) {
      EXPECT_LE(s, last);
      sum += last = s;
    }
    EXPECT_NEAR(sum, length, 1e-9);
  }
}

}  // namespace
}  // namespace specstep
