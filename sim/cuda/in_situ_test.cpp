// Clocks and stamps: the arithmetic from numbers made by hand, and clocks of this machine's devices.
#include "sim/cuda/in_situ.h"

#include <gtest/gtest.h>

#include "sim/cuda/test_rig.h"

namespace specstep::cuda {
namespace {

TEST(InSitu, TheFastestRoundTripGivesTheOffset) {
  PingPong exchange;
  exchange.least_tick = 32;
  // Round 3 is slow, round 5 fast; the answering clock is 1000 ahead.
  exchange.sent[3] = 100000, exchange.returned[3] = 108000, exchange.answered[3] = 100000 + 6000 + 1000;
  exchange.sent[5] = 200000, exchange.returned[5] = 202000, exchange.answered[5] = 200000 + 1000 + 1000;
  const auto offset = offset_of(exchange);
  ASSERT_TRUE(offset);
  EXPECT_DOUBLE_EQ(offset->offset, 1000);
  EXPECT_DOUBLE_EQ(offset->error, 1000 + 2 * 32);
  EXPECT_FALSE(offset_of(PingPong{}));
}

TEST(InSitu, WaitEndsWhereTheLastRankArrives) {
  // Rank 1's clock is 500 ahead. Rank 0 arrives at 1000, rank 1 at 4000 on rank 0's clock; both depart by 14000.
  const std::vector<Stamps> stamps{{{1000, 13900}}, {{4500, 14500}}};
  const InSitu found = split(stamps, {{0, 0}, {500, 600}});
  EXPECT_TRUE(found.told());
  EXPECT_NEAR(found.transfer, 10e-6, 1e-12);
  EXPECT_NEAR(found.wait, 3e-6, 1e-12);
  EXPECT_NEAR(found.clock_error, 0.6e-6, 1e-12);
}

TEST(InSitu, WaitIsThatOfTheFirstRankWhicheverItIs) {
  // Rank 0 waits 2 us, rank 1 then 6 us, rank 0 again 4 us: two ranks, and in each call one that does not wait.
  const std::vector<Stamps> stamps{{{0, 12000}, {26000, 36000}, {40000, 54000}},
                                   {{2000, 12000}, {20000, 36000}, {44000, 54000}}};
  EXPECT_NEAR(split(stamps, {{0, 0}, {0, 100}}).wait, 4e-6, 1e-12);
  // What clocks do not tell apart is no wait.
  EXPECT_EQ(split(stamps, {{0, 0}, {0, 5000}}).wait, 0);
}

TEST(InSitu, ErrorsOfTwoClocksAdd) {
  const std::vector<Stamps> stamps(3, Stamps{{0, 9000}});
  EXPECT_NEAR(split(stamps, {{0, 0}, {0, 700}, {0, 400}}).clock_error, 1.1e-6, 1e-12);
}

TEST(InSitu, ClocksWorseThanTheTransferTellNothing) {
  const std::vector<Stamps> stamps{{{1000, 2000}}, {{1000, 2000}}};
  EXPECT_FALSE(split(stamps, {{0, 0}, {0, 1500}}).told());
  EXPECT_TRUE(split(stamps, {{0, 0}, {0, 900}}).told());
}

TEST(InSitu, ClocksOfThisMachineCompare) {
  if (devices_here() < 2) GTEST_SKIP() << "fewer than two CUDA devices";
  const RunConfig config = device_run(host::dense_stack, host::eagle_draft, 2, "f32");
  Crew crew(config);
  const Clocks first(crew);
  const Clocks second(crew);
  ASSERT_TRUE(first.refused().empty()) << first.refused();
  EXPECT_GT(first.offsets()[1].error, 0);
  // Two measurements within a moment agree to within both errors, drift included.
  EXPECT_NEAR(first.offsets()[1].offset, second.offsets()[1].offset,
              first.offsets()[1].error + second.offsets()[1].error + 5000);
}

}  // namespace
}  // namespace specstep::cuda
