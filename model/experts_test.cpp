// Experts met, against closed forms, a published table and draws.
#include "model/experts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <tuple>

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

// Padding tokens are alike: however many there are, they draw once more.
TEST(Experts, PaddingMeetsWhatOneMoreTokenMeets) {
  for (const double popularity : {0.0, 1.0}) {
    const Routing routing{32, 4, 0, popularity};
    const double brute = drawn(32, 4, popularity, 7, 500);
    EXPECT_NEAR(expected_experts(routing, 6, 1, true), brute, 0.02 * brute) << popularity;
    // Texts of three tokens each, and one more token on its own.
    EXPECT_NEAR(expected_experts(routing, 4, 3, true), expected_experts(routing, 13, 1), 1e-9) << popularity;
    EXPECT_LE(expected_experts(routing, 6, 3, true) - expected_experts(routing, 6, 3), 4) << popularity;
  }
}

/// Mean over draws of the most experts that one of `ranks` ranks meets, experts dealt out in order.
double drawn_fullest(std::size_t experts, std::size_t ranks, int top_k, int tokens, int trials) {
  std::mt19937 random(11);
  std::vector<std::size_t> all(experts), own(static_cast<std::size_t>(top_k));
  std::iota(all.begin(), all.end(), 0);
  double sum = 0;
  for (int t = 0; t < trials; ++t) {
    std::set<std::size_t> met;
    for (int token = 0; token < tokens; ++token) {
      std::sample(all.begin(), all.end(), own.begin(), top_k, random);
      met.insert(own.begin(), own.end());
    }
    std::vector<int> held(ranks, 0);
    for (const std::size_t one : met) ++held[one / (experts / ranks)];
    sum += *std::max_element(held.begin(), held.end());
  }
  return sum / trials;
}

TEST(Experts, FullestRankAgreesWithDraws) {
  for (const auto& [experts, ranks, top_k] : {std::tuple{64, 8, 4}, {32, 4, 4}, {96, 8, 8}})
    for (const int tokens : {1, 3, 12}) {
      const double brute =
          drawn_fullest(static_cast<std::size_t>(experts), static_cast<std::size_t>(ranks), top_k, tokens, 1500);
      const double met = expected_experts({experts, top_k, 0, 0}, tokens, 1);
      EXPECT_NEAR(fullest_rank(experts, ranks, met), brute, 0.02 * brute) << experts << ' ' << tokens;
    }
}

TEST(Experts, FullestRankHasItsLimits) {
  EXPECT_DOUBLE_EQ(fullest_rank(384, 1, 31.5), 31.5);
  EXPECT_DOUBLE_EQ(fullest_rank(384, 8, 1), 1);
  EXPECT_DOUBLE_EQ(fullest_rank(384, 8, 384), 48);
  // Two balls in two halves: the second falls beside the first with (n/2 - 1) / (n - 1).
  EXPECT_NEAR(fullest_rank(10, 2, 2), 1 + 4.0 / 9, 1e-12);
  EXPECT_NEAR(fullest_rank(10, 2, 1.5), (1 + 1 + 4.0 / 9) / 2, 1e-12);
  // Every expert on a rank of its own: none holds more than one.
  EXPECT_NEAR(fullest_rank(16, 16, 5), 1, 1e-12);
  double last = 0;
  for (double met = 1; met <= 384; met += 7.3) {
    const double most = fullest_rank(384, 8, met);
    EXPECT_GE(most, met / 8);
    EXPECT_GE(most, last);
    EXPECT_LE(most, 48 + 1e-9);
    last = most;
  }
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
