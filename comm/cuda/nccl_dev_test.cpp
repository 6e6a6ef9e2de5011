// Our kernel on NCCL's device API among the GPUs of this machine, ranks as threads.
#include <algorithm>
#include <chrono>

#include "comm/cuda/check_sums.h"
#include "comm/cuda/own/test_own.h"

namespace specstep::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

CommRequest dev_request(double limit_seconds = 20) {
  CommRequest request;
  request.backend = "nccl_dev";
  request.wait_limit_seconds = limit_seconds;
  return request;
}

TEST(CheckSums, ABackendThatSumsWronglyIsFoundOnEveryRank) {
  if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
  const auto thrown = on_ranks(2, 20, true, [](Bootstrap& group) {
    CommRequest request;
    request.backend = "null";
    const auto comm = open_comm(request, group);
    check_sums(*comm, group, "null", 10);
  });
  for (const Thrown& one : thrown) EXPECT_THAT(one.text, HasSubstr("null: sums of bf16 on rank"));
}

class NcclDev : public testing::Test {
 protected:
  void SetUp() override {
    if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
    const auto opened =
        on_ranks(std::min(2, visible_gpus()), 60, false, [](Bootstrap& group) { open_comm(dev_request(), group); });
    if (opened.front().unsupported) GTEST_SKIP() << opened.front().text;
    ASSERT_EQ(opened.front().text, "");
  }
  static int ranks() { return std::min(8, visible_gpus()); }
};

TEST_F(NcclDev, OneRankHasItsOwnSum) {
  OwnTrial trial{.request = dev_request(), .ranks = 1, .dtypes = {DType::bf16, DType::f16, DType::f32}};
  trial.counts = {1, 3, 8, 9, 250, 7168, 1'000'001};
  EXPECT_EQ(faults_of(trial), "");
}

TEST_F(NcclDev, SumsOfAllTypesAndSizesAreExact) {
  if (ranks() < 2) GTEST_SKIP() << "one GPU: no two ranks";
  OwnTrial trial{.request = dev_request(), .ranks = ranks(), .dtypes = {DType::bf16, DType::f16, DType::f32}};
  trial.counts = {1, 3, 8, 9, 250, 1001, 7168, 21504, 100'003, 1'000'001};  // the last takes many rounds of the lines
  trial.replays = 100;
  EXPECT_EQ(faults_of(trial), "");
}

TEST_F(NcclDev, TwoRanksOfMany) {
  if (ranks() < 3) GTEST_SKIP() << "the test above had them";
  EXPECT_EQ(faults_of({.request = dev_request(), .ranks = 2}), "");
  EXPECT_EQ(faults_of({.request = dev_request(), .ranks = 3}), "");
}

TEST_F(NcclDev, TenThousandReplaysWithRanksThatComeAtDifferentTimes) {
  if (ranks() < 2) GTEST_SKIP() << "one GPU: no two ranks";
  OwnTrial trial{.request = dev_request(), .ranks = ranks(), .counts = {8, 1001, 7168}};
  trial.replays = 10'000;
  trial.skew = true;
  EXPECT_EQ(faults_of(trial), "");
}

TEST_F(NcclDev, GridsAndPiecesThatChangeFromCallToCall) {
  OwnTrial trial{.request = dev_request(), .ranks = ranks()};
  trial.request.own.largest_kib = 16;
  trial.request.own.blocks = 5;
  trial.counts = {40'000, 8, 7168, 20'000, 64, 1, 8192, 8193};
  EXPECT_EQ(faults_of(trial), "");
}

TEST_F(NcclDev, F32SumsAreAddedInTheOrderOfTheRanks) {
  if (ranks() < 2) GTEST_SKIP() << "one GPU: no two ranks";
  constexpr std::size_t count = 5003;
  const auto value = [](int rank, std::size_t i) {
    std::minstd_rand random(static_cast<unsigned>(rank * 7919 + static_cast<int>(i)) + 1);
    random.discard(3);
    return static_cast<float>(random()) * (i % 2 == 0 ? 1.0F : -1e-9F);
  };
  const auto thrown = on_ranks(ranks(), 60, false, [&](Bootstrap& group) {
    const auto comm = open_comm(dev_request(), group);
    std::vector<float> mine, expected(count, 0), got(count);
    for (std::size_t i = 0; i < count; ++i) mine.push_back(value(group.rank(), i));
    for (int r = 0; r < group.ranks(); ++r)
      for (std::size_t i = 0; i < count; ++i) expected[i] += value(r, i);
    const DeviceBytes values(count * sizeof(float));
    check(cudaMemcpy(values.data(), mine.data(), values.size(), cudaMemcpyHostToDevice), "filling");
    const Stream stream = make_stream();
    comm->all_reduce(values.data(), count, DType::f32, stream.get());
    wait_for(stream.get(), *comm, 30, "a sum");
    check(cudaMemcpy(got.data(), values.data(), values.size(), cudaMemcpyDeviceToHost), "reading");
    EXPECT_EQ(got, expected) << "rank " << group.rank();
    group.barrier("end");
  });
  for (const Thrown& one : thrown) EXPECT_EQ(one.text, "");
}

TEST_F(NcclDev, ARankThatDoesNotComeIsNamed) {
  if (ranks() < 2) GTEST_SKIP() << "one GPU: no two ranks";
  std::string told;
  const auto begin = std::chrono::steady_clock::now();
  const auto thrown = on_ranks(2, 120, false, [&](Bootstrap& group) {
    const auto comm = open_comm(dev_request(10), group);  // opening must fit as well
    const Stream stream = make_stream();
    const OwnSite site(group.rank(), 2, 7168, DType::bf16, 0);
    const DeviceBytes wrong(Integers{0}, DType::f32);
    auto* counter = reinterpret_cast<unsigned*>(wrong.data());
    for (int i = 0; i < 3; ++i) site.issue(*comm, counter, stream.get());
    wait_for(stream.get(), *comm, 30, "good calls");
    group.barrier("good calls");
    if (group.rank() == 0) {
      // Of many, those behind the one that failed must not wait as long again.
      for (int i = 0; i < 122; ++i) site.issue(*comm, counter, stream.get());
      check(cudaStreamSynchronize(stream.get()), "draining");
      try {
        comm->check_health();
      } catch (const Error& e) {
        told = e.what();
      }
    }
    group.barrier("rank 0 has given up");
  });
  for (const Thrown& one : thrown) EXPECT_EQ(one.text, "");
  // Site 3 of this communicator, and the seventh call of all: three had checked the sums.
  EXPECT_THAT(told,
              HasSubstr("allreduce nccl_dev, site 3, epoch 7: rank 0 waited in vain for rank 1: the data of pack"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST_F(NcclDev, AbortEndsWaits) {
  if (ranks() < 2) GTEST_SKIP() << "one GPU: no two ranks";
  const auto thrown = on_ranks(2, 120, false, [](Bootstrap& group) {
    const auto comm = open_comm(dev_request(15), group);
    const Stream stream = make_stream();
    const DeviceBytes values(Integers(7168, 1), DType::bf16);
    if (group.rank() == 0) {
      comm->all_reduce(values.data(), 7168, DType::bf16, stream.get());
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

TEST_F(NcclDev, NotesNameVersionSettingsAndCost) {
  if (ranks() < 2) GTEST_SKIP() << "one GPU: no two ranks";
  const auto thrown = on_ranks(2, 60, false, [](Bootstrap& group) {
    const auto comm = open_comm(dev_request(), group);
    std::string notes;
    for (const std::string& note : comm->notes()) notes += note + "\n";
    EXPECT_THAT(notes, AllOf(HasSubstr("nccl_dev: NCCL 2."), HasSubstr("NCCL_NVLS_ENABLE=0"),
                             HasSubstr("ncclLLA2ASession, without multicast"), HasSubstr("two communicators")));
    group.barrier("end");
  });
  for (const Thrown& one : thrown) EXPECT_EQ(one.text, "");
}

TEST_F(NcclDev, RanksThatShareAGpuAreRefusedOnBoth) {
  const auto thrown = on_ranks(2, 60, true, [](Bootstrap& group) { open_comm(dev_request(), group); });
  for (const Thrown& one : thrown) {
    EXPECT_TRUE(one.unsupported) << one.text;
    EXPECT_THAT(one.text, HasSubstr("backend nccl_dev: ranks 0 and 1 share GPU"));
  }
}

TEST_F(NcclDev, SettingsThatDifferAreRefusedOnBoth) {
  if (ranks() < 2) GTEST_SKIP() << "one GPU: no two ranks";
  const auto thrown = on_ranks(2, 60, false, [](Bootstrap& group) {
    CommRequest request = dev_request();
    request.own.blocks = 1 + group.rank();
    open_comm(request, group);
  });
  for (const Thrown& one : thrown) {
    EXPECT_TRUE(one.unsupported) << one.text;
    EXPECT_THAT(one.text, HasSubstr("settings differ"));
  }
}

}  // namespace
}  // namespace specstep::comm
