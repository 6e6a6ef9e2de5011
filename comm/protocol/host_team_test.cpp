// Every protocol with threads as ranks: exact sums, equal bits, skew, wrap of the epoch, and ends of calls that cannot
// end.
#include "comm/protocol/host_team.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <cmath>

#include "comm/protocol/boards.h"
#include "comm/protocol/quantised.h"
#include "comm/protocol/test_team.h"

namespace specstep::comm::protocol {
namespace {

using ::testing::Combine;
using ::testing::HasSubstr;
using ::testing::Values;

constexpr Protocol all[] = {Protocol::push_sentinel,   Protocol::push_ll,        Protocol::pull_one_stage,
                            Protocol::pull_two_stage,  Protocol::push_two_stage, Protocol::push_islands,
                            Protocol::ring_ll,         Protocol::boards,         Protocol::quantised_two_stage,
                            Protocol::copied_two_stage};
const auto protocols = ::testing::ValuesIn(all);
const auto exact_protocols = ::testing::Values(
    Protocol::push_sentinel, Protocol::push_ll, Protocol::pull_one_stage, Protocol::pull_two_stage,
    Protocol::push_two_stage, Protocol::push_islands, Protocol::ring_ll, Protocol::boards, Protocol::copied_two_stage);

using Setting = std::tuple<Protocol, int>;
std::string setting_name(const ::testing::TestParamInfo<Setting>& info) {
  return std::string(name_of(std::get<0>(info.param))) + "_" + std::to_string(std::get<1>(info.param)) + "_ranks";
}

class Exact : public ::testing::TestWithParam<Setting> {
 protected:
  static std::string run(std::uint32_t calls) {
    const auto& [protocol, ranks] = GetParam();
    return testing::rehearse({.protocol = protocol, .ranks = ranks, .calls = calls});
  }
};

// What the race detector runs daily.
class Calls1000 : public Exact {};
TEST_P(Calls1000, SumsAreExact) { EXPECT_EQ(run(1000), ""); }
INSTANTIATE_TEST_SUITE_P(Protocol, Calls1000, Combine(protocols, Values(2, 3, 8)), setting_name);

// Ten times as many in tools/test --all.
class Calls10000 : public Exact {};
TEST_P(Calls10000, SumsAreExact) { EXPECT_EQ(run(10'000), ""); }
INSTANTIATE_TEST_SUITE_P(Protocol, Calls10000, Combine(protocols, Values(1, 2, 3, 4, 5, 6, 7, 8)), setting_name);

class EachProtocol : public ::testing::TestWithParam<Protocol> {};
INSTANTIATE_TEST_SUITE_P(Protocol, EachProtocol, protocols,
                         [](const auto& one) { return std::string(name_of(one.param)); });

/// Runs `body(rank)` on a thread of each rank; what it throws fails the test.
template <class Body>
void on_all_ranks(int ranks, Body body) {
  std::vector<std::jthread> threads;
  threads.reserve(static_cast<std::size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&body, rank] {
      try {
        body(rank);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    });
}

/// One rounding done by distance in double.
std::uint32_t rounded(float sum) {
  const std::uint32_t low = std::bit_cast<std::uint32_t>(sum) >> 16;
  const auto distance = [&](std::uint32_t candidate) {
    return std::abs(static_cast<double>(std::bit_cast<float>(candidate << 16)) - static_cast<double>(sum));
  };
  if (distance(low) == distance(low + 1)) return low % 2 == 0 ? low : low + 1;
  return distance(low) < distance(low + 1) ? low : low + 1;
}

constexpr std::size_t ranks_of_order = 8;
constexpr std::uint32_t packs_of_order = 32;
using Inputs = std::array<float, ranks_of_order>;  // of one value

/// fp32 sums in the order that a protocol states, for a value of a pack.
float ordered_sum(Protocol protocol, const Inputs& inputs, std::uint32_t pack) {
  float sum = 0;
  if (protocol == Protocol::push_islands) {
    for (std::vector<int> island : testing::islands_of(ranks_of_order)) {
      std::sort(island.begin(), island.end());
      float inside = 0;
      for (const int rank : island) inside += inputs[static_cast<std::size_t>(rank)];
      sum += inside;
    }
    return sum;
  }
  // Round the ring from the rank after the shard's owner; else from rank 0.
  const std::size_t first =
      protocol == Protocol::ring_ll ? pack / (packs_of_order / ranks_of_order) + 1 : std::size_t{0};
  for (std::size_t k = 0; k < ranks_of_order; ++k) sum += inputs[(first + k) % ranks_of_order];
  return sum;
}

std::uint32_t half_of_pack(const Pack& pack, int half) { return (pack.word[half / 2] >> (16 * (half % 2))) & 0xFFFFU; }

/// Values of eight ranks over many magnitudes, and what each rank gets.
struct Random8 {
  HostTeam team{
      TeamOptions{.capacity = {ranks_of_order, packs_of_order, 2}, .islands = testing::islands_of(ranks_of_order)}};
  std::vector<std::vector<Pack>> out{ranks_of_order, std::vector<Pack>(packs_of_order)};

  explicit Random8(Protocol protocol) {
    std::mt19937 random(11);
    std::uniform_real_distribution<float> magnitudes(-3.0F, 3.0F);
    for (int rank = 0; rank < static_cast<int>(ranks_of_order); ++rank)
      for (Pack& pack : team.input(rank))
        for (std::uint32_t& word : pack.word) {
          const auto value = [&] {
            return round_to_bf16(std::pow(10.0F, magnitudes(random)) * (random() % 2 ? 1.0F : -1.0F));
          };
          word = value() | (value() << 16);
        }
    on_all_ranks(ranks_of_order, [&](int rank) {
      team.allreduce(rank, {protocol, 0, packs_of_order, 2}, out[static_cast<std::size_t>(rank)].data());
    });
  }
  Inputs inputs(std::uint32_t pack, int half) {
    Inputs values{};
    for (std::size_t rank = 0; rank < ranks_of_order; ++rank)
      values[rank] = widen(half_of_pack(team.input(static_cast<int>(rank))[pack], half));
    return values;
  }
};

class ExactProtocol : public ::testing::TestWithParam<Protocol> {};
INSTANTIATE_TEST_SUITE_P(Protocol, ExactProtocol, exact_protocols,
                         [](const auto& one) { return std::string(name_of(one.param)); });

TEST_P(ExactProtocol, BitsAreThoseOfTheOrderedSumOnEveryRank) {
  Random8 run(GetParam());
  for (std::uint32_t p = 0; p < packs_of_order; ++p)
    for (int half = 0; half < values_per_pack; ++half)
      for (const auto& mine : run.out)
        ASSERT_EQ(half_of_pack(mine[p], half), rounded(ordered_sum(GetParam(), run.inputs(p, half), p)))
            << p << " " << half;
}

TEST(HostTeam, QuantisedSumsAreEqualOnAllRanksAndWithinTheirBound) {
  Random8 run(Protocol::quantised_two_stage);
  // 32 packs are one group.
  double largest = 0;
  for (std::size_t rank = 0; rank < ranks_of_order; ++rank) {
    double of_rank = 0;
    for (std::uint32_t p = 0; p < packs_of_order; ++p)
      for (int half = 0; half < values_per_pack; ++half)
        of_rank = std::max(of_rank, std::abs(static_cast<double>(run.inputs(p, half)[rank])));
    largest += of_rank;
  }
  double worst = 0;
  for (std::uint32_t p = 0; p < packs_of_order; ++p)
    for (int half = 0; half < values_per_pack; ++half) {
      double exact = 0, magnitudes = 0;
      for (const float v : run.inputs(p, half)) {
        exact += static_cast<double>(v);
        magnitudes += std::abs(static_cast<double>(v));
      }
      const std::uint32_t got = half_of_pack(run.out[0][p], half);
      const double bound = error_bound(magnitudes, largest), off = std::abs(static_cast<double>(widen(got)) - exact);
      ASSERT_LE(off, bound + std::ldexp(magnitudes, -8)) << p << " " << half;  // and the rounding to bf16
      worst = std::max(worst, off / bound);
      for (const auto& mine : run.out) ASSERT_EQ(half_of_pack(mine[p], half), got) << p << " " << half;
    }
  EXPECT_GT(worst, 0.05) << "a bound this wide says nothing";
}

TEST_P(EachProtocol, BlocksOfAGridMayRunAtOnce) {
  constexpr int ranks = 2;
  const Capacity capacity = testing::capacity_of(ranks, testing::unit_of(GetParam()));
  const testing::Words words(ranks, testing::most_of(GetParam()));
  HostTeam team({.capacity = capacity, .first_epoch = 0xFFFFFFFBU, .islands = testing::islands_of(ranks)});
  std::atomic<int> wrong{0};
  on_all_ranks(ranks, [&](int rank) {
    std::vector<Pack> out(capacity.packs);
    // The boundary between two kernels of a stream.
    std::barrier boundary(static_cast<std::ptrdiff_t>(capacity.blocks));
    const auto run = [&](std::uint32_t block) {
      for (std::uint32_t call = 0; call < 500; ++call) {
        const auto shape = testing::shape_of(GetParam(), call);
        if (block == 0) words.fill(team.input(rank), rank, call);
        boundary.arrive_and_wait();
        if (block < shape.blocks) team.run_block(rank, shape, block, out.data());
        boundary.arrive_and_wait();
        if (block == 0 && !words.holds(out, shape.packs, call)) ++wrong;
      }
    };
    std::vector<std::jthread> threads;
    for (std::uint32_t block = 0; block < capacity.blocks; ++block) threads.emplace_back(run, block);
  });
  EXPECT_EQ(wrong, 0);
}

/// Three good calls, then rank `dead` stays away. What each of the others was told.
std::vector<std::string> play_with_a_death(HostTeam& team, Protocol protocol, int ranks, int dead) {
  std::vector<std::string> told(static_cast<std::size_t>(ranks));
  on_all_ranks(ranks, [&](int rank) {
    std::vector<Pack> out(11);
    try {
      for (std::int32_t site = 0; site < 3; ++site) team.allreduce(rank, {protocol, site, 11, 2}, out.data());
      if (rank != dead) team.allreduce(rank, {protocol, 3, 1, 1}, out.data());
    } catch (const CallAborted& e) {
      told[static_cast<std::size_t>(rank)] = e.what();
    }
  });
  return told;
}

/// What is missed first of a rank that owns no part of a call of one pack.
std::string first_wait(Protocol protocol) {
  switch (protocol) {
    case Protocol::push_sentinel:
    case Protocol::push_ll:
    case Protocol::boards:
      return "the data of pack 0";
    case Protocol::push_two_stage:
    case Protocol::push_islands:
    case Protocol::quantised_two_stage:
      return "its part of pack 0";
    case Protocol::ring_ll:
      return "the sum of pack 0 as far as it";
    case Protocol::pull_one_stage:
    case Protocol::pull_two_stage:
    case Protocol::copied_two_stage:
      return "its start flag of block 0";
  }
  return "";
}

TEST_P(EachProtocol, ADeadRankIsNamedByTheOthers) {
  constexpr int ranks = 4, dead = 2;
  HostTeam team({{ranks, 11, 2}, 0xFFFFFFFDU, std::chrono::milliseconds(60), testing::islands_of(ranks)});
  const auto begin = std::chrono::steady_clock::now();
  const auto told = play_with_a_death(team, GetParam(), ranks, dead);
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, std::chrono::milliseconds(60));
  EXPECT_LT(took, std::chrono::seconds(5));  // the limit that was set, not the ten seconds of the default
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != dead) {
      // Calls -3, -2, -1 went well; 0 is left out.
      EXPECT_THAT(told[static_cast<std::size_t>(rank)], HasSubstr("site 3, epoch 3: rank " + std::to_string(rank)));
    }
  EXPECT_THAT(team.diagnosis(), HasSubstr(std::string(name_of(GetParam()))));
  EXPECT_THAT(team.diagnosis(), HasSubstr("waited in vain for rank 2: " + first_wait(GetParam())));
}

TEST_P(EachProtocol, ATeamWorksAgainAfterAReset) {
  constexpr int ranks = 3;
  HostTeam team({{ranks, 11, 2}, 7, std::chrono::milliseconds(30)});
  play_with_a_death(team, GetParam(), ranks, 1);
  EXPECT_NE(team.diagnosis(), "");
  team.reset();
  EXPECT_EQ(team.diagnosis(), "");
  const testing::Words words(ranks, testing::most_of(GetParam()));
  on_all_ranks(ranks, [&](int rank) {
    std::vector<Pack> out(11);
    words.fill(team.input(rank), rank, 0);
    team.allreduce(rank, {GetParam(), 0, 11, 2}, out.data());
    EXPECT_TRUE(words.holds(out, 11, 0)) << rank;
  });
}

TEST(HostTeam, AnIslandThatIsMissingIsNamed) {
  // Rank 1 is alone at its place in its island; the others wait for what crosses from it.
  constexpr int ranks = 2;
  HostTeam team({{ranks, 11, 2}, 7, std::chrono::milliseconds(30), {{0}, {1}}});
  play_with_a_death(team, Protocol::push_islands, ranks, 1);
  EXPECT_THAT(team.diagnosis(), HasSubstr("rank 0 waited in vain for rank 1: its island's part of pack 0"));
}

TEST(HostTeam, IslandsThatDoNotDivideTheRanksAreRefused) {
  using Lists = std::vector<std::vector<int>>;
  const auto refusal = [](const Lists& lists) -> std::string {
    try {
      island_plan_of(lists, 4);
    } catch (const Unsupported& e) {
      return e.what();
    }
    return "";
  };
  EXPECT_THAT(refusal({}), HasSubstr("no island"));
  EXPECT_THAT(refusal({{0, 1}, {2}}), HasSubstr("differ in size"));
  EXPECT_THAT(refusal({{0, 1}, {2, 4}}), HasSubstr("rank 4 of 4"));
  EXPECT_THAT(refusal({{0, 1}, {2, 1}}), HasSubstr("rank 1 twice"));
  EXPECT_THAT(refusal({{0, 1}}), HasSubstr("no island holds rank 2"));
  EXPECT_EQ(refusal({{0, 3}, {2, 1}}), "");
}

TEST(HostTeam, ProtocolsMayFollowEachOther) {
  // Eager calls and graphs of several backends share one epoch.
  constexpr int ranks = 3;
  const testing::Words words(ranks, testing::most_of(Protocol::quantised_two_stage));  // exact in all of them
  HostTeam team({testing::capacity_of(ranks, testing::unit_of(Protocol::quantised_two_stage)), 0xFFFFFFFBU});
  std::atomic<int> wrong{0};
  on_all_ranks(ranks, [&](int rank) {
    std::vector<Pack> out(team.input(rank).size());
    std::minstd_rand random(5);  // the same draws on every rank
    for (std::uint32_t call = 0; call < 1000; ++call) {
      const auto shape = testing::shape_of(all[random() % std::size(all)], call);
      words.fill(team.input(rank), rank, call);
      team.allreduce(rank, shape, out.data());
      if (!words.holds(out, shape.packs, call)) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

class Boards : public ::testing::TestWithParam<int> {};

// Boards show long messages with flags, short ones in pairs; each may follow the other.
TEST_P(Boards, LongAndShortMessagesMayFollowEachOther) {
  const int ranks = GetParam();
  const testing::Words words(ranks);
  const std::uint32_t most = packs_in_pairs({ranks, 100000, 2});
  ASSERT_EQ(most, 12288U / static_cast<unsigned>(ranks - 1));  // 192 KiB of what a rank reads, in packs of 16 bytes
  HostTeam team({Capacity{ranks, most + 700, 2}, 0xFFFFFFFBU});
  std::atomic<int> wrong{0};
  on_all_ranks(ranks, [&](int rank) {
    std::vector<Pack> out(team.input(rank).size());
    std::uint32_t call = 0;
    for (const std::uint32_t packs : {most + 1, most, 5U, most + 700, most + 33, most + 1, 100U, most + 2}) {
      words.fill(team.input(rank), rank, ++call);
      team.allreduce(rank, {Protocol::boards, 0, packs, 1 + call % 2}, out.data());
      if (!words.holds(out, packs, call)) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Boards, ::testing::Values(2, 3, 4, 8));

TEST(HostTeam, CallsThatDoNotFitAreRefused) {
  HostTeam team(TeamOptions{.capacity = {1, 4, 2}});
  std::vector<Pack> out(8);
  for (const HostTeam::CallShape& shape :
       {HostTeam::CallShape{Protocol::push_ll, 0, 0, 1}, {Protocol::push_ll, 0, 5, 1}, {Protocol::push_ll, 0, 1, 3}})
    EXPECT_THROW(team.allreduce(0, shape, out.data()), std::logic_error);
  EXPECT_NO_THROW(team.allreduce(0, {Protocol::push_ll, 0, 4, 2}, out.data()));
}

}  // namespace
}  // namespace specstep::comm::protocol
