// Backends as collectives of threads.
#include "sim/host/exchange.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/build_plan.h"
#include "sim/test_configs.h"

namespace specstep::host {
namespace {

RunConfig config_of(const std::string& backend, int ranks) {
  std::vector<std::string> sets{"parallel={tensor: " + std::to_string(ranks) + "}",
                                "comm={backend: \"" + backend + "\"}"};
  // Multicast needs a switch that has it; the other backends take a fabric of PCIe switches.
  if (backend == "nvls")
    sets.insert(sets.begin(), {"machine=8x-h200", "machine.fabric.multicast=true"});
  else
    sets.insert(sets.begin(), "machine=8x-rtx-pro-6000");
  return load_run("tiny", sets);
}

class SumsOnEveryRank : public testing::TestWithParam<std::tuple<std::string, int>> {};

TEST_P(SumsOnEveryRank, ThroughTheBackendsSchedule) {
  const auto [backend, ranks] = GetParam();
  const RunConfig config = config_of(backend, ranks);
  Team team(ranks);
  Exchange exchange(config, team);
  const Plan plan = build_plan(config.stack, config.parallel, {PassKind::decode, 1, 1, 0});
  exchange.prepare(plan);
  Group everyone;
  for (int r = 0; r < ranks; ++r) everyone.push_back(r);
  std::vector<std::vector<float>> vectors(static_cast<std::size_t>(ranks));
  constexpr std::size_t length = 517;
  team.run([&](int rank) {
    std::vector<float>& mine = vectors[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < length; ++i)
      mine.push_back(static_cast<float>((i * 7 + static_cast<std::size_t>(rank) * 13) % 32));
    exchange.run(rank, everyone, comm::Collective::all_reduce, 512, mine);
  });
  for (const auto& v : vectors)
    for (std::size_t i = 0; i < length; ++i) {
      float sum = 0;
      for (std::size_t r = 0; r < static_cast<std::size_t>(ranks); ++r)
        sum += static_cast<float>((i * 7 + r * 13) % 32);
      if (backend == "q8")  // e4m3 keeps three digits behind the point, of each value and of the sum
        EXPECT_NEAR(v[i], sum, 32.0F / 16 * static_cast<float>(ranks) / 2 + 31.0F * static_cast<float>(ranks) / 16);
      else
        EXPECT_EQ(v[i], sum);
    }
}

INSTANTIATE_TEST_SUITE_P(Backends, SumsOnEveryRank,
                         testing::Combine(testing::Values("nccl", "nccl_sym", "nccl_dev", "push1", "pull1", "rsag",
                                                          "hostbc", "ring", "ce", "q8", "nvls"),
                                          testing::Values(2, 4, 8)));
// Fewer ranks than eight all hang on one switch of this fabric.
INSTANTIATE_TEST_SUITE_P(Islands, SumsOnEveryRank, testing::Combine(testing::Values("island"), testing::Values(8)));

TEST(Exchange, WhatMovesNothingIsRefused) {
  for (const char* backend : {"null", "delay"}) {
    const RunConfig config = config_of(backend, 2);
    Team team(2);
    Exchange exchange(config, team);
    const Plan plan = build_plan(config.stack, config.parallel, {PassKind::decode, 1, 1, 0});
    EXPECT_THROW(exchange.prepare(plan), InputError) << backend;
  }
}

TEST(Team, AFailingRankEndsTheOthersAndTheTeamGoesOn) {
  Team team(4);
  for (int round = 0; round < 3; ++round) {
    EXPECT_THROW(team.run([&](int rank) {
      team.meet();
      if (rank == 2) throw Error("rank 2 is out");
      team.meet();
      team.meet();
    }),
                 Error);
    std::atomic<int> done = 0;
    team.run([&](int) {
      team.meet();
      ++done;
    });
    EXPECT_EQ(done, 4);
  }
}

}  // namespace
}  // namespace specstep::host
