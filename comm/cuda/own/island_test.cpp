// island on devices: divisions of every kind, and those it refuses.
#include "comm/cuda/own/test_own.h"
#include "comm/test_fabrics.h"

namespace specstep::comm {
namespace {

using testing::HasSubstr;
using Lists = std::vector<std::vector<int>>;

CommRequest request_with(const Lists& islands) {
  CommRequest request;
  request.backend = "island";
  request.own.islands = islands;
  request.wait_limit_seconds = 20;
  return request;
}

std::string refusal(const CommRequest& request, int ranks) {
  const auto ends = thread_bootstrap(ranks, 10);
  try {
    open_comm(request, *ends.front());
  } catch (const Unsupported& e) {
    return e.what();
  }
  return "opened";
}

TEST(Island, RefusesWhatDoesNotDivideTheRanks) {
  EXPECT_THAT(refusal(request_with({}), 2), HasSubstr("neither a list of islands"));
  EXPECT_THAT(refusal(request_with({{0, 1}, {2}}), 3), HasSubstr("differ in size"));
  EXPECT_THAT(refusal(request_with({{0, 1}}), 3), HasSubstr("no island holds rank 2"));
  const Topology topology = fabric_text(two_switches(4));
  CommRequest request = request_with({});
  request.target = &topology;
  EXPECT_THAT(refusal(request, 4), HasSubstr("do not divide into islands"));  // all on one switch
}

struct Division {
  std::string name;
  int ranks;
  Lists islands;
  friend void PrintTo(const Division& one, std::ostream* out) { *out << one.name; }
};

class IslandDivisions : public testing::TestWithParam<Division> {
 protected:
  void SetUp() override {
    if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
    trial_.request = request_with(GetParam().islands);
    trial_.ranks = GetParam().ranks;
  }
  OwnTrial trial_;
};
INSTANTIATE_TEST_SUITE_P(Division, IslandDivisions,
                         testing::Values(Division{"alone", 1, {}}, Division{"two_of_one", 2, {{0}, {1}}},
                                         Division{"one_of_three", 3, {{0, 1, 2}}},
                                         Division{"two_of_two_crosswise", 4, {{0, 2}, {3, 1}}},
                                         Division{"three_of_two", 6, {{0, 3}, {1, 4}, {5, 2}}},
                                         Division{"seven_of_one", 7, {{6}, {5}, {4}, {3}, {2}, {1}, {0}}},
                                         Division{"two_of_four", 8, {{0, 1, 2, 3}, {5, 6, 7, 4}}},
                                         Division{"four_of_two", 8, {{0, 1}, {2, 3}, {4, 5}, {6, 7}}}),
                         [](const auto& one) { return one.param.name; });

TEST_P(IslandDivisions, SumsOfAllTypesAndSizesAreExact) {
  trial_.dtypes = {DType::bf16, DType::f16, DType::f32};
  trial_.counts = {1, 3, 8, 9, 250, 1001, 7168, 21504, 100'003, 1'000'001};
  trial_.replays = 3;
  EXPECT_EQ(faults_of(trial_), "");
}

TEST_P(IslandDivisions, RanksMayComeAtDifferentTimesAndTheCountOfCallsMayWrap) {
  trial_.request.first_epoch = 0xFFFFFFFBU;
  trial_.skew = true;
  trial_.replays = 50;
  EXPECT_EQ(faults_of(trial_), "");
}

TEST_P(IslandDivisions, GridsAndPiecesThatChangeFromCallToCall) {
  trial_.request.own.largest_kib = 16;
  trial_.request.own.blocks = 5;
  trial_.counts = {40'000, 8, 7168, 20'000, 64, 1, 8192, 8193};
  EXPECT_EQ(faults_of(trial_), "");
}

class IslandDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
  }
};

TEST_F(IslandDevice, TenThousandReplays) {
  OwnTrial trial{.request = request_with({{0, 1}, {2, 3}}), .ranks = 4, .counts = {8, 1001, 7168}};
  trial.replays = 10'000;
  EXPECT_EQ(faults_of(trial), "");
}

TEST_F(IslandDevice, AMissingRankIsNamedByItsIslandAndAbortEndsTheRest) {
  CommRequest request = request_with({{0, 1}, {2, 3}});
  request.wait_limit_seconds = 1;
  constexpr int ranks = 4, dead = 3;
  std::vector<std::string> told(ranks);
  const auto thrown = on_ranks(ranks, 60, visible_gpus() < ranks, [&](Bootstrap& group) {
    const auto comm = open_comm(request, group);
    const Stream stream = make_stream();
    const OwnSite site(group.rank(), ranks, 7168, DType::bf16, 0);
    const DeviceBytes wrong(Integers{0, 0}, DType::f32);
    load_what_tests_launch(group, reinterpret_cast<unsigned*>(wrong.data()), stream.get());
    if (group.rank() != dead) {
      site.issue(*comm, reinterpret_cast<unsigned*>(wrong.data()), stream.get());
      check(cudaStreamSynchronize(stream.get()), "draining");
      try {
        comm->check_health();
      } catch (const Error& e) {
        told[static_cast<std::size_t>(group.rank())] = e.what();
      }
    }
    group.barrier("all have given up");
  });
  for (const Thrown& one : thrown) EXPECT_EQ(one.text, "");
  EXPECT_THAT(told[2], HasSubstr("rank 2 waited in vain for rank 3"));
  for (const int rank : {0, 1})
    EXPECT_THAT(told[static_cast<std::size_t>(rank)], HasSubstr(formatted("rank {} waited in vain for rank", rank)));
}

}  // namespace
}  // namespace specstep::comm
