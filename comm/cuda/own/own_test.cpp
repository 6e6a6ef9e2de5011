// Backends of our own on devices; ranks share one where there are too few.
#include <numeric>

#include "comm/cuda/own/test_own.h"

namespace specstep::comm {
namespace {

using testing::HasSubstr;

/// A backend with its settings.
struct Own {
  std::string name;
  std::string backend;
  OwnSettings settings;
  friend void PrintTo(const Own& own, std::ostream* out) { *out << own.name; }
};

CommRequest request_of(const Own& own) {
  CommRequest request;
  request.backend = own.backend;
  request.own = own.settings;
  request.wait_limit_seconds = 5;
  return request;
}

std::vector<Own> every_own() {
  return {{"push1", "push1", {}},
          {"push1_ll", "push1", {.wire = "ll"}},
          {"pull1", "pull1", {}},
          {"rsag_push", "rsag", {}},
          {"rsag_pull", "rsag", {.transfer = "pull"}},
          {"ring", "ring", {}},
          {"hostbc", "hostbc", {}},
          {"ce", "ce", {}}};
}

class OwnOnRanks : public testing::TestWithParam<std::tuple<Own, int>> {
 protected:
  void SetUp() override {
    if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
    trial_.request = request_of(std::get<0>(GetParam()));
    trial_.ranks = std::get<1>(GetParam());
  }
  OwnTrial trial_;
};
INSTANTIATE_TEST_SUITE_P(Backends, OwnOnRanks,
                         testing::Combine(testing::ValuesIn(every_own()), testing::Values(1, 2, 3, 4, 5, 8)),
                         [](const auto& one) {
                           return std::get<0>(one.param).name + "_" + std::to_string(std::get<1>(one.param)) + "_ranks";
                         });

TEST_P(OwnOnRanks, SumsOfAllTypesAndSizesAreExact) {
  trial_.dtypes = {DType::bf16, DType::f16, DType::f32};
  trial_.counts = {1, 3, 8, 9, 250, 1001, 7168, 21504, 100'003, 1'000'001};
  trial_.replays = 3;
  EXPECT_EQ(faults_of(trial_), "");
}

TEST_P(OwnOnRanks, RanksMayComeAtDifferentTimesAndTheCountOfCallsMayWrap) {
  trial_.request.first_epoch = 0xFFFFFFFBU;
  trial_.skew = true;
  trial_.replays = 50;
  EXPECT_EQ(faults_of(trial_), "");
}

class OwnBackends : public testing::TestWithParam<Own> {
 protected:
  void SetUp() override {
    if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, OwnBackends, testing::ValuesIn(every_own()),
                         [](const auto& one) { return one.param.name; });

TEST_P(OwnBackends, TenThousandReplays) {
  OwnTrial trial{.request = request_of(GetParam()), .ranks = 4, .counts = {8, 1001, 7168}};
  trial.replays = 10'000;
  EXPECT_EQ(faults_of(trial), "");
}

TEST_P(OwnBackends, GridsAndPiecesThatChangeFromCallToCall) {
  OwnTrial trial{.request = request_of(GetParam()), .ranks = 3};
  trial.request.own.largest_kib = 16;
  trial.request.own.blocks = 5;
  trial.counts = {40'000, 8, 7168, 20'000, 64, 1, 8192, 8193};
  EXPECT_EQ(faults_of(trial), "");
}

TEST_P(OwnBackends, TheOtherCollectivesMoveEveryPart) {
  const auto thrown = on_ranks(4, 60, visible_gpus() < 4, [&](Bootstrap& group) {
    const auto comm = open_comm(request_of(GetParam()), group);
    const Stream stream = make_stream();
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{300'001}}) {
      const std::size_t n = 4 * count;
      const int me = group.rank();
      Integers gathered, exchanged, summed(count, 0);
      for (int r = 0; r < 4; ++r) {
        const Integers part = own_values(r, count, 1);
        gathered.insert(gathered.end(), part.begin(), part.end());
        const Integers whole = own_values(r, n, 2);
        const auto at = whole.begin() + static_cast<std::ptrdiff_t>(count) * me;
        exchanged.insert(exchanged.end(), at, at + static_cast<std::ptrdiff_t>(count));
        for (std::size_t i = 0; i < count; ++i) summed[i] += at[static_cast<std::ptrdiff_t>(i)];
      }
      const DeviceBytes part(own_values(me, count, 1), DType::bf16), whole(own_values(me, n, 2), DType::bf16);
      const DeviceBytes all(2 * n), to(2 * n), mine(2 * count);
      const auto each = static_cast<std::int64_t>(count);
      comm->all_gather(part.data(), all.data(), each, DType::bf16, stream.get());
      comm->all_to_all(whole.data(), to.data(), each, DType::bf16, stream.get());
      comm->reduce_scatter(whole.data(), mine.data(), each, DType::bf16, stream.get());
      wait_for(stream.get(), *comm, 30, "collectives");
      EXPECT_EQ(difference(all.read(), gathered, DType::bf16, "all_gather"), "") << me;
      EXPECT_EQ(difference(to.read(), exchanged, DType::bf16, "all_to_all"), "") << me;
      EXPECT_EQ(difference(mine.read(), summed, DType::bf16, "reduce_scatter"), "") << me;
    }
    group.barrier("done");
  });
  for (const Thrown& one : thrown) EXPECT_EQ(one.text, "");
}

TEST_P(OwnBackends, ARankThatDoesNotComeIsNamed) {
  CommRequest request = request_of(GetParam());
  request.wait_limit_seconds = 1;
  constexpr int ranks = 3, dead = 1;
  std::vector<std::string> told(ranks);
  const auto begin = std::chrono::steady_clock::now();
  const auto thrown = on_ranks(ranks, 60, visible_gpus() < ranks, [&](Bootstrap& group) {
    const auto comm = open_comm(request, group);
    const Stream stream = make_stream();
    const OwnSite site(group.rank(), ranks, 7168, DType::bf16, 0);
    const DeviceBytes wrong(Integers{0, 0}, DType::f32);
    auto* counter = reinterpret_cast<unsigned*>(wrong.data());
    load_what_tests_launch(group, counter, stream.get());
    for (int i = 0; i < 3; ++i) site.issue(*comm, counter, stream.get());
    wait_for(stream.get(), *comm, 10, "good calls");
    group.barrier("good calls");
    if (group.rank() != dead) {
      // A graph of many: those behind the one that failed must not wait as long again.
      const GraphExec graph = capture(stream.get(), [&] {
        for (int i = 0; i < 122; ++i) site.issue(*comm, counter, stream.get());
      });
      check(cudaGraphLaunch(graph.get(), stream.get()), "replaying");
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
  for (const int rank : {0, 2})
    EXPECT_THAT(told[static_cast<std::size_t>(rank)], HasSubstr(formatted("rank {} waited in vain for rank", rank)));
  EXPECT_THAT(told[0], HasSubstr(formatted("allreduce {}", GetParam().backend)));
  EXPECT_THAT(told[0] + told[2], HasSubstr("for rank 1"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_P(OwnBackends, AbortEndsWaits) {
  CommRequest request = request_of(GetParam());
  request.wait_limit_seconds = 50;
  const auto thrown = on_ranks(2, 60, visible_gpus() < 2, [&](Bootstrap& group) {
    const auto comm = open_comm(request, group);
    const Stream stream = make_stream();
    const OwnSite site(group.rank(), 2, 7168, DType::bf16, 0);
    const DeviceBytes wrong(Integers{0, 0}, DType::f32);
    load_what_tests_launch(group, reinterpret_cast<unsigned*>(wrong.data()), stream.get());
    if (group.rank() == 0) {
      site.issue(*comm, reinterpret_cast<unsigned*>(wrong.data()), stream.get());
      comm->abort();
      const auto begin = std::chrono::steady_clock::now();
      check(cudaStreamSynchronize(stream.get()), "draining");
      EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
      EXPECT_THROW(comm->check_health(), Error);
    }
    group.barrier("aborted");
  });
  for (const Thrown& one : thrown) EXPECT_EQ(one.text, "");
}

TEST_P(OwnBackends, SettingsThatDifferAreRefusedOnAllRanks) {
  const auto thrown = on_ranks(2, 20, visible_gpus() < 2, [&](Bootstrap& group) {
    CommRequest request = request_of(GetParam());
    request.own.blocks = 1 + group.rank();
    open_comm(request, group);
  });
  for (const Thrown& one : thrown) {
    EXPECT_TRUE(one.unsupported);
    EXPECT_THAT(one.text, HasSubstr("ranks differ"));
  }
}

TEST(Own, MoreThanEightRanksAreRefused) {
  if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
  const auto thrown = on_ranks(9, 20, true, [&](Bootstrap& group) { open_comm(request_of(every_own()[0]), group); });
  for (const Thrown& one : thrown) EXPECT_THAT(one.text, HasSubstr("at most 8"));
}

}  // namespace
}  // namespace specstep::comm
