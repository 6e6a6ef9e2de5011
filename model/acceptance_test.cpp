// Distributions and walks against closed forms, brute force and recorded counts.
#include "model/acceptance.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <numeric>

namespace specstep {
namespace {

TEST(Acceptance, DistributionSumsToOneAndHasTheLength) {
  const Acceptance a = Acceptance::of_conditional({0.8, 0.5, 0.25});
  EXPECT_EQ(a.drafts(), 3);
  // By hand: stop at the first miss.
  const std::vector<double> expected{0.2, 0.8 * 0.5, 0.8 * 0.5 * 0.75, 0.8 * 0.5 * 0.25};
  double mean = 0;
  for (std::size_t j = 0; j < 4; ++j) {
    EXPECT_NEAR(a.distribution()[j], expected[j], 1e-12);
    mean += expected[j] * static_cast<double>(j + 1);
  }
  EXPECT_NEAR(a.length(), mean, 1e-12);
  EXPECT_NEAR(a.rate(), (mean - 1) / 3, 1e-12);
}

// A constant rate is a geometric sum: (1 - p^(K+1)) / (1 - p).
TEST(Acceptance, ConstantRateIsGeometric) {
  for (const double p : {0.0, 0.3, 0.8})
    EXPECT_NEAR(Acceptance::of_conditional(std::vector<double>(5, p)).length(), (1 - std::pow(p, 6)) / (1 - p), 1e-12);
  for (const double length : {1.0, 1.7, 2.5, 3.999})
    EXPECT_NEAR(Acceptance::of_length(length, 3).length(), length, 1e-9);
}

TEST(Acceptance, WeightsComeBackAsTheDistribution) {
  const Acceptance a = Acceptance::of_weights({7, 0, 2, 1});
  EXPECT_EQ(a.drafts(), 3);
  const std::vector<double> expected{0.7, 0, 0.2, 0.1};
  for (std::size_t j = 0; j < 4; ++j) EXPECT_NEAR(a.distribution()[j], expected[j], 1e-12);
}

// Coins in equal steps meet each length as often as the distribution says.
TEST(Acceptance, DrawsFollowTheDistribution) {
  const Acceptance a = Acceptance::of_conditional({0.9, 0.3, 0.6, 0.1});
  std::map<std::int64_t, int> seen;
  constexpr int coins = 100000;
  for (int i = 0; i < coins; ++i) ++seen[a.draw((i + 0.5) / coins)];
  for (std::int64_t j = 1; j <= 5; ++j)
    EXPECT_NEAR(static_cast<double>(seen[j]) / coins, a.distribution()[static_cast<std::size_t>(j - 1)], 1e-4) << j;
}

TEST(Acceptance, SamplerRepeatsWithItsSeedAndHasTheMean) {
  const Acceptance a(std::vector<double>{0.645, 0.393, 0.24});
  AcceptanceSampler one(a, 7), same(a, 7), other(a, 8);
  double sum = 0;
  bool differs = false;
  constexpr int draws = 200000;
  for (int i = 0; i < draws; ++i) {
    const std::int64_t x = one.next();
    ASSERT_EQ(x, same.next());
    differs = differs || x != other.next();
    sum += static_cast<double>(x);
  }
  EXPECT_TRUE(differs);
  EXPECT_NEAR(sum / draws, 2.278, 0.01);  // 4 standard errors
}

TEST(Acceptance, ABatchSharesOneDrawWhereEnginesDo) {
  AcceptanceSampler shared(Acceptance::of_weights({1, 1, 1, 1}, true), 3);
  AcceptanceSampler apart(Acceptance::of_weights({1, 1, 1, 1}, false), 3);
  bool equal = true;
  for (int i = 0; i < 50; ++i) {
    const std::vector<std::int64_t> together = shared.next_batch(6);
    for (const std::int64_t x : together) EXPECT_EQ(x, together.front());
    const std::vector<std::int64_t> each = apart.next_batch(6);
    equal = equal && std::equal(each.begin() + 1, each.end(), each.begin());
  }
  EXPECT_FALSE(equal);
}

TEST(Acceptance, OtherDraftLengthsAreAPrefixOrGoOnFalling) {
  std::vector<double> chances;
  for (int i = 0; i < 7; ++i) chances.push_back(0.9 * std::pow(0.97, i));
  const Acceptance seven = Acceptance::of_conditional(chances);
  EXPECT_NEAR(seven.at(3).length(), Acceptance::of_conditional({chances.begin(), chances.begin() + 3}).length(), 1e-12);
  // A decay that is exact is continued exactly.
  EXPECT_NEAR(seven.at(3).at(7).length(), seven.length(), 1e-9);
}

// One CNN request of Llama-3.1-8B, 439 tokens: the first 40 of 283 recorded accept lengths, one
// for each position (SpecDecode-Bench/simulator data/llama3.1-8B, 2026-04-01; figures only).
const std::vector<std::int64_t> recorded{1, 7, 1, 2, 4, 3, 2, 1, 2, 1, 2, 1, 8, 7, 1, 5, 4, 3, 5, 4,
                                         3, 1, 1, 1, 2, 2, 1, 1, 2, 1, 2, 1, 1, 1, 2, 1, 1, 2, 1, 2};

// With three drafts, by hand: positions 0 1 5 8 10 12 16 20 23 24 26 27 28 30 32 33 34 36 37 39, a step of 1 4 3 2 2 4
// 4 3 1 2 1 1 2 2 1 1 2 1 2 1; the last one is cut at the end of the list.
TEST(TraceWalk, AdvancesByWhatEachStepEmits) {
  const TraceWalk walk = walk_trace(recorded, 439, 3, true);
  const std::vector<std::int64_t> expected{1, 4, 3, 2, 2, 4, 4, 3, 1, 2, 1, 1, 2, 2, 1, 1, 2, 1, 2, 1};
  EXPECT_EQ(walk.steps, expected);
  EXPECT_EQ(walk.tokens, 40);  // the list is shorter than the 439 tokens: it stops there
}

TEST(TraceWalk, StopsAtTheShorter) {
  EXPECT_EQ(walk_trace(recorded, 6, 3, true).steps, (std::vector<std::int64_t>{1, 4, 1}));
  EXPECT_EQ(walk_trace(recorded, 6, 3, true).tokens, 6);
  // One length for each verify: every entry is a step.
  EXPECT_EQ(walk_trace({1, 7, 2}, 1000, 3, false).steps, (std::vector<std::int64_t>{1, 4, 2}));
  EXPECT_EQ(walk_trace({1, 7, 2}, 1000, 20, false).tokens, 10);
}

}  // namespace
}  // namespace specstep
