// Fair sharing against textbook cases and against the definition of max-min fairness.
#include "comm/fair_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace specstep::comm {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;

Flow flow(std::vector<Use> uses, double bytes = 1) { return {std::move(uses), bytes}; }

// A line of two links of 1 and 2: the long flow and the short one on link 0 get 1/2 each, link 1 has 3/2 left.
TEST(FairRates, LongFlowLeavesRoomOnTheWiderLink) {
  const auto rates = fair_rates({1, 2}, {flow({{0}, {1}}), flow({{0}}), flow({{1}})});
  EXPECT_THAT(rates, ElementsAre(DoubleEq(0.5), DoubleEq(0.5), DoubleEq(1.5)));
}

// Window of 6 shared by round trips of 1 and 2: x + 2 x = 6.
TEST(FairRates, WeightsAreRoundTripsOfAWindow) {
  const auto rates = fair_rates({6}, {flow({{0, 1}}), flow({{0, 2}})});
  EXPECT_THAT(rates, ElementsAre(DoubleEq(2), DoubleEq(2)));
}

TEST(FairRates, AFlowThatUsesNothingIsUnlimited) {
  EXPECT_THAT(fair_rates({1}, {flow({})}), ElementsAre(std::numeric_limits<double>::infinity()));
}

// Two flows of 1 and 3 bytes on a link of 1: they share until 2, then the longer has it alone until 4.
TEST(FinishAll, SharesAnewWhenAFlowEnds) {
  const Completion done = finish_all({1}, {flow({{0}}, 1), flow({{0}}, 3)});
  EXPECT_DOUBLE_EQ(done.seconds, 4);
  EXPECT_EQ(done.limit, 0);
}

TEST(FinishAll, ScalesWithBytes) {
  const std::vector<double> capacity{3, 5, 7};
  std::vector<Flow> flows{flow({{0}, {1}}, 2), flow({{1}, {2}}, 5), flow({{0}, {2}}, 1)};
  const double once = finish_all(capacity, flows).seconds;
  for (Flow& f : flows) f.bytes *= 10;
  EXPECT_NEAR(finish_all(capacity, flows).seconds, 10 * once, 1e-9 * once);
}

// The definition: no capacity is exceeded, and every flow has a full resource on which nobody gets more.
TEST(FairRates, AreMaxMinFairOnRandomNetworks) {
  std::mt19937 random(7);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 200; ++round) {
    std::vector<double> capacity;
    for (int r = 0; r < 2 + pick(8); ++r) capacity.push_back(1 + pick(100));
    const int resources = static_cast<int>(capacity.size());
    std::vector<Flow> flows;
    for (int f = 0; f < 1 + pick(20); ++f) {
      Flow next{{}, 1};
      for (int r = 0; r < resources; ++r)
        if (pick(3) == 0) next.uses.push_back({r, 1});
      if (next.uses.empty()) next.uses.push_back({pick(resources), 1});
      flows.push_back(std::move(next));
    }
    const auto rates = fair_rates(capacity, flows);
    std::vector<double> load(capacity.size(), 0);
    std::vector<double> most(capacity.size(), 0);
    for (std::size_t f = 0; f < flows.size(); ++f)
      for (const Use& use : flows[f].uses) {
        const auto r = static_cast<std::size_t>(use.resource);
        load[r] += rates[f];
        most[r] = std::max(most[r], rates[f]);
      }
    for (std::size_t r = 0; r < capacity.size(); ++r) EXPECT_LE(load[r], capacity[r] * (1 + 1e-9));
    for (std::size_t f = 0; f < flows.size(); ++f) {
      const bool has_bottleneck = std::any_of(flows[f].uses.begin(), flows[f].uses.end(), [&](const Use& use) {
        const auto r = static_cast<std::size_t>(use.resource);
        return load[r] > capacity[r] * (1 - 1e-9) && rates[f] >= most[r] * (1 - 1e-9);
      });
      EXPECT_TRUE(has_bottleneck) << "round " << round << " flow " << f;
    }
  }
}

}  // namespace
}  // namespace specstep::comm
