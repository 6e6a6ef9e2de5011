// What the issue of this model asks of the published Kimi-K2.6 tables, and the page that shows every cell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "sim/published/cells.h"

namespace specstep::published {
namespace {

class Published : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    steps() = step_tables(predictions());
    matrix() = draft_matrix(predictions());
    swap() = swap_matrix(predictions());
  }
  static Predictions& predictions() {
    static Predictions all;
    return all;
  }
  static StepTables& steps() {
    static StepTables tables;
    return tables;
  }
  static std::vector<Pair>& matrix() {
    static std::vector<Pair> pairs;
    return pairs;
  }
  static std::vector<SwapCell>& swap() {
    static std::vector<SwapCell> cells;
    return cells;
  }
  static void expect_within(const std::vector<Cell>& cells, std::size_t count, double median, double largest) {
    const Errors rest = errors_of(cells, true);
    EXPECT_EQ(rest.count, count);
    EXPECT_LE(rest.median, median);
    EXPECT_LE(rest.largest, largest);
  }
};

TEST_F(Published, DecodeStepsByBatch) { expect_within(steps().decode, 5, 0.08, 0.15); }
TEST_F(Published, IterationsOfThreeDraftsByBatch) { expect_within(steps().iteration, 5, 0.10, 0.18); }
TEST_F(Published, BreakEvenByBatch) { expect_within(steps().break_even, 5, 0.10, 1); }
TEST_F(Published, DecodeStepsByContext) { expect_within(steps().context_decode, 2, 0.10, 0.10); }
TEST_F(Published, IterationsByContext) { expect_within(steps().context_iteration, 2, 0.10, 0.10); }
// Those that the attention was fitted to by their differences, so that their level is a prediction.
TEST_F(Published, ShortestAndLongestContext) {
  for (const auto* cells : {&steps().context_decode, &steps().context_iteration})
    for (const Cell& c : *cells) EXPECT_LE(std::abs(c.error()), 0.10) << c.id;
}

// The measured sides, worked out by other hands from the same table.
TEST_F(Published, MeasuredStepsAreThoseOfTheTable) {
  const double decode[]{10.8, 13.2, 16.7, 22.8, 25.1, 33.4, 42.7, 57.6};
  const double iteration[]{20.3, 23.3, 24.9, 40.3, 43.8, 59.8, 83.6, 128.3};
  ASSERT_EQ(steps().decode.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_NEAR(steps().decode[i].measured, decode[i], 0.06);
    EXPECT_NEAR(steps().iteration[i].measured, iteration[i], 0.06);
  }
}

TEST_F(Published, SignOfSpeculationInTheMatrix) {
  int usable = 0, right = 0, negative = 0;
  for (const Pair& p : matrix()) {
    if (!p.usable()) continue;
    ++usable;
    right += p.same_sign() ? 1 : 0;
    negative += p.ratio() < 1 ? 1 : 0;
    if (std::abs(p.ratio() - 1) > 0.15) {
      EXPECT_TRUE(p.same_sign()) << p.context_name << " x " << p.users << ": " << p.ratio() << ", predicted "
                                 << p.predicted_ratio();
    }
  }
  EXPECT_EQ(usable, 39);
  EXPECT_EQ(negative, 19);
  EXPECT_GE(right, 32);
}

TEST_F(Published, ACellOfWordsIsAbsent) {
  int absent = 0;
  for (const Pair& p : matrix())
    if (!p.on) {
      ++absent;
      EXPECT_EQ(p.context, 32768);
      EXPECT_EQ(p.users, 1);
    }
  EXPECT_EQ(absent, 1);
  EXPECT_FALSE(cell_number("skip"));
  EXPECT_FALSE(cell_number("N/A (69/128), raw 151.7"));
  EXPECT_FALSE(cell_number("0"));
  EXPECT_EQ(cell_number("151.7"), 151.7);
  EXPECT_EQ(tokens_of("16k"), 16384);
  EXPECT_THROW(tokens_of("k"), Error);
}

TEST_F(Published, ContextsBeyondThePoolAreSaid) {
  for (const Pair& p : matrix()) {
    const bool beyond = (p.context + 256) * p.users > 337296;
    EXPECT_EQ(p.pool_on.has_value(), beyond) << p.context_name << " x " << p.users;
    if (p.pool_on) {
      EXPECT_LT(*p.pool_on, p.predicted_on * 1.0001);
    }
  }
}

// Custom allreduce on the same machine: its messages grow with the users, past the size where NCCL is faster.
TEST_F(Published, CustomAllreduceLosesMoreWithMoreUsers) {
  double before = 2;
  for (const SwapCell& c : swap()) {
    if (c.context > 0) continue;
    if (c.users > 1) {
      EXPECT_LT(c.predicted_ratio(), 1) << c.users;
      EXPECT_LT(*c.ratio(), 1);
    }
    EXPECT_LT(c.predicted_ratio(), before) << c.users;
    before = c.predicted_ratio();
  }
  for (const SwapCell& c : swap())
    if (c.context > 0 && c.users > 1) {
      // What the exchange costs drowns in the cache: nearer to 1 than at context 0.
      for (const SwapCell& short_one : swap())
        if (short_one.context == 0 && short_one.users == c.users) {
          EXPECT_GT(c.predicted_ratio(), short_one.predicted_ratio());
        }
    }
  const SwapCell& last = swap().back();
  EXPECT_FALSE(last.off);
  EXPECT_FALSE(last.ratio());
  EXPECT_EQ(last.text, "N/A (69/128), raw 151.7");
}

TEST_F(Published, ThePageIsCurrent) {
  const std::string path = std::string(SPECSTEP_SOURCE_DIR) + "/docs/kimi-k2.6.md";
  const std::string want = page(steps(), matrix(), swap(), predictions());
  std::ifstream in(path);
  std::stringstream have;
  have << in.rdbuf();
  if (std::getenv("SPECSTEP_UPDATE_GOLDEN")) std::ofstream(path) << want;
  EXPECT_EQ(have.str(), want) << "run with SPECSTEP_UPDATE_GOLDEN=1 to rewrite it";
}

}  // namespace
}  // namespace specstep::published
