// Experts met, against closed forms, a published table and draws.
#include "model/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

namespace specstep {
namespace {

// arXiv 2506.20675: distinct experts of Kimi-K2.5 for M independent tokens, 384 (1 - (1 - 8/384)^M).
TEST(Experts, DistinctOfIndependentTokens) {
  const std::pair<std::int64_t, double> published[]{{1, 8},    {2, 15.8}, {3, 23.5}, {4, 31.0},  {8, 59.5},
                                                    {16, 110}, {32, 188}, {64, 284}, {128, 358}, {512, 384}};
  for (const auto& [tokens, experts] : published) {
    EXPECT_NEAR(expected_experts({384, 8, 0.38, 0}, tokens, 1), experts, experts * 0.005) << tokens;
    EXPECT_NEAR(expected_experts({384, 8, 0, 0}, 1, tokens), expected_experts({384, 8, 0, 0}, tokens, 1), 1e-9);
  }
}

/// One token's experts: top_k draws without replacement by the weights r^-s, one after the other.
std::set<std::size_t> draw(const std::vector<double>& weights, int top_k, std::mt19937& random) {
  std::set<std::size_t> own;
  std::vector<double> left = weights;
  while (static_cast<int>(own.size()) < top_k) {
    std::discrete_distribution<std::size_t> pick(left.begin(), left.end());
    const std::size_t one = pick(random);
    own.insert(one);
    left[one] = 0;
  }
  return own;
}

double drawn(std::size_t experts, int top_k, double popularity, int tokens, int trials) {
  std::mt19937 random(7);
  std::vector<double> weights(experts);
  for (std::size_t i = 0; i < experts; ++i) weights[i] = std::pow(static_cast<double>(i + 1), -popularity);
  double sum = 0;
  for (int t = 0; t < trials; ++t) {
    std::set<std::size_t> met;
    for (int token = 0; token < tokens; ++token) met.merge(draw(weights, top_k, random));
    sum += static_cast<double>(met.size());
  }
  return sum / trials;
}

TEST(Experts, DistinctAgreeWithDraws) {
  for (const double popularity : {0.0, 0.6, 1.0, 1.4})
    for (const int tokens : {2, 6, 20}) {
      const double brute = drawn(32, 4, popularity, tokens, 500);
      EXPECT_NEAR(expected_experts({32, 4, 0, popularity}, tokens, 1), brute, 0.02 * brute)
          << popularity << ' ' << tokens;
    }
  const double wide = drawn(384, 8, 0.96, 16, 40);  // the shape of Kimi-K2.5
  EXPECT_NEAR(expected_experts({384, 8, 0, 0.96}, 16, 1), wide, 0.03 * wide);
}

TEST(Experts, ChancesSumToTopKAndFall) {
  for (const double popularity : {0.0, 0.3, 1.0, 3.0}) {
    const std::vector<double> chances = expert_chances({384, 8, 0, popularity});
    EXPECT_NEAR(std::accumulate(chances.begin(), chances.end(), 0.0), 8, 1e-6) << popularity;
    EXPECT_TRUE(std::is_sorted(chances.rbegin(), chances.rend()));
    EXPECT_LE(chances.front(), 1);
  }
  EXPECT_EQ(expert_chances({4, 4, 0, 1}), std::vector<double>(4, 1.0));  // all of them, whatever the law
}

TEST(Experts, PopularityLowersWhatManyTokensMeet) {
  EXPECT_NEAR(expected_experts({384, 8, 0, 1}, 1, 1), 8, 1e-6);
  for (const std::int64_t tokens : {2, 8, 64})
    EXPECT_LT(expected_experts({384, 8, 0, 1}, tokens, 1), expected_experts({384, 8, 0, 0.5}, tokens, 1));
}

// Both ways to the same number: the closed form, and the sum over chances of a law that is all but flat.
TEST(Experts, AFlatLawIsUniform) {
  for (const std::int64_t tokens : {1, 7, 100})
    EXPECT_NEAR(expected_experts({384, 8, 0.38, 1e-9}, tokens, 4), expected_experts({384, 8, 0.38, 0}, tokens, 4),
                1e-5);
}

TEST(Experts, OverlapLowersWhatAChainMeets) {
  const double four = expected_experts({384, 8, 0.38, 0}, 1, 4);
  EXPECT_NEAR(expected_experts({384, 8, 0.38, 0}, 1, 1), 8, 1e-9);
  EXPECT_LT(four, expected_experts({384, 8, 0, 0}, 1, 4));
  // Two tokens with overlap o meet about k(2 - o) experts while few are met.
  EXPECT_NEAR(expected_experts({384, 8, 0.38, 0}, 1, 2), 8 * (2 - 0.38), 0.2);
  EXPECT_NEAR(expected_experts({384, 8, 1.0, 0}, 1, 9), 8, 1e-9);
}

}  // namespace
}  // namespace specstep
