// NCCL on symmetric windows among the GPUs of this machine, ranks as threads.
#include <algorithm>

#include "comm/cuda/own/test_own.h"

namespace specstep::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

CommRequest sym_request() {
  CommRequest request;
  request.backend = "nccl_sym";
  request.wait_limit_seconds = 60;
  return request;
}

std::string text_of_notes(const DeviceComm& comm) {
  std::string out;
  for (const std::string& note : comm.notes()) out += note + "\n";
  return out;
}

/// Values that lie `offset` bytes into memory that the backend gave, summed in place: once eagerly, then by a graph.
void sum_in_window(DeviceComm& comm, Bootstrap& group, std::size_t count, std::size_t offset) {
  const DType dtype = DType::bf16;
  const std::size_t bytes = count * width(dtype);
  const auto window = comm.allocate(offset + bytes);
  if (!window) throw Error("nccl_sym gave no memory");
  char* values = static_cast<char*>(window.get()) + offset;
  const DeviceBytes given(own_values(group.rank(), count, 1), dtype);
  const Stream stream = make_stream();
  const auto once = [&] {
    check(cudaMemcpyAsync(values, given.data(), bytes, cudaMemcpyDeviceToDevice, stream.get()), "filling");
    comm.all_reduce(values, static_cast<std::int64_t>(count), dtype, stream.get());
  };
  const auto expect_sums = [&](const std::string& when) {
    wait_for(stream.get(), comm, 30, when);
    std::string got(bytes, '\0');
    check(cudaMemcpy(got.data(), values, bytes, cudaMemcpyDeviceToHost), "reading");
    const std::string what = formatted("{}, rank {}, {} bytes into the window", when, group.rank(), offset);
    EXPECT_EQ(difference(got, own_sums(group.ranks(), count, 1), dtype, what), "");
  };
  once();
  expect_sums("eager");
  const GraphExec graph = capture(stream.get(), once);
  group.barrier("captured");
  for (int i = 0; i < 100; ++i) check(cudaGraphLaunch(graph.get(), stream.get()), "replaying");
  expect_sums("replayed");
  group.barrier("summed");
}

class NcclSym : public testing::Test {
 protected:
  void SetUp() override {
    if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
    const auto opened =
        on_ranks(std::min(2, visible_gpus()), 60, false, [](Bootstrap& group) { open_comm(sym_request(), group); });
    if (opened.front().unsupported) GTEST_SKIP() << opened.front().text;
    ASSERT_EQ(opened.front().text, "");
  }
  static int ranks() { return std::min(8, visible_gpus()); }
};

TEST_F(NcclSym, OneRankHasItsOwnSum) {
  EXPECT_EQ(faults_of({.request = sym_request(), .ranks = 1, .dtypes = {DType::bf16, DType::f16, DType::f32}}), "");
}

TEST_F(NcclSym, SumsThroughItsOwnWindowAreExact) {
  if (ranks() < 2) GTEST_SKIP() << "one GPU: no two ranks";
  OwnTrial trial{.request = sym_request(), .ranks = ranks()};
  trial.counts = {1, 3, 8, 250, 7168, 21504, 1'000'001, 5'000'001};  // the last is more than the window holds
  trial.dtypes = {DType::bf16, DType::f16, DType::f32};
  EXPECT_EQ(faults_of(trial), "");
}

TEST_F(NcclSym, RanksMayComeAtDifferentTimes) {
  if (ranks() < 2) GTEST_SKIP() << "one GPU: no two ranks";
  OwnTrial trial{.request = sym_request(), .ranks = ranks(), .replays = 200};
  trial.skew = true;
  EXPECT_EQ(faults_of(trial), "");
}

TEST_F(NcclSym, MemoryOfItsWindowsIsSummedInPlace) {
  if (ranks() < 2) GTEST_SKIP() << "one GPU: no two ranks";
  const auto thrown = on_ranks(ranks(), 120, false, [](Bootstrap& group) {
    const auto comm = open_comm(sym_request(), group);
    const auto sum_at = [&](std::size_t offset) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{7168}, std::size_t{21504}, std::size_t{2'000'003}})
        sum_in_window(*comm, group, count, offset);
    };
    for (const std::size_t offset : {std::size_t{0}, std::size_t{4096}}) sum_at(offset);
    EXPECT_THAT(text_of_notes(*comm), HasSubstr("allreduces: all in place in windows"));
    sum_at(4098);  // begins between packs
    const DeviceBytes elsewhere(Integers(8, 1), DType::bf16);
    const Stream stream = make_stream();
    comm->all_reduce(elsewhere.data(), 8, DType::bf16, stream.get());
    wait_for(stream.get(), *comm, 30, "a call on other memory");
    EXPECT_EQ(difference(elsewhere.read(), Integers(8, group.ranks()), DType::bf16, "elsewhere"), "");
    EXPECT_THAT(text_of_notes(*comm), HasSubstr("16 calls in place in windows, 9 through a window of 8.00 MiB"));
    group.barrier("end");
  });
  for (const Thrown& one : thrown) EXPECT_EQ(one.text, "");
}

TEST_F(NcclSym, MemoryThatIsNoLongerUsedIsGivenBack) {
  const auto thrown = on_ranks(ranks(), 120, false, [](Bootstrap& group) {
    const auto comm = open_comm(sym_request(), group);
    comm->allocate(1);  // what NCCL keeps for itself
    const auto available = [] {
      std::size_t free = 0, total = 0;
      check(cudaMemGetInfo(&free, &total), "asking for free memory");
      return free;
    };
    const std::size_t before = available();
    constexpr std::size_t size = std::size_t{256} << 20;
    for (int i = 0; i < 3; ++i) {
      const auto window = comm->allocate(size);
      EXPECT_LE(available() + size, before + (std::size_t{64} << 20));
      group.barrier("allocated");
    }
    group.barrier("given back by all");  // what others have mapped counts until then
    EXPECT_GE(available() + (std::size_t{64} << 20), before);
    group.barrier("end");
  });
  for (const Thrown& one : thrown) EXPECT_EQ(one.text, "");
}

TEST_F(NcclSym, AWindowOfOtherSizesIsRefusedOnAllRanks) {
  if (ranks() < 2) GTEST_SKIP() << "one GPU: no two ranks";
  const auto thrown = on_ranks(2, 60, false, [](Bootstrap& group) {
    const auto comm = open_comm(sym_request(), group);
    EXPECT_THROW(comm->allocate(group.rank() == 0 ? 4096 : 65536), Error);
    group.barrier("end");
  });
  for (const Thrown& one : thrown) EXPECT_EQ(one.text, "");
}

TEST_F(NcclSym, TheOtherCollectivesAreNccls) {
  if (ranks() < 2) GTEST_SKIP() << "one GPU: no two ranks";
  const auto thrown = on_ranks(2, 60, false, [](Bootstrap& group) {
    const auto comm = open_comm(sym_request(), group);
    const Stream stream = make_stream();
    const Integers first = own_values(0, 1000, 1), second = own_values(1, 1000, 1);
    Integers both = first;
    both.insert(both.end(), second.begin(), second.end());
    const DeviceBytes mine(group.rank() == 0 ? first : second, DType::bf16), all(4000);
    comm->all_gather(mine.data(), all.data(), 1000, DType::bf16, stream.get());
    wait_for(stream.get(), *comm, 30, "an all_gather");
    EXPECT_EQ(difference(all.read(), both, DType::bf16, "all_gather"), "");
    group.barrier("end");
  });
  for (const Thrown& one : thrown) EXPECT_EQ(one.text, "");
}

TEST_F(NcclSym, NotesNameVersionSettingsAndWhatWasUsed) {
  if (ranks() < 2) GTEST_SKIP() << "one GPU: no two ranks";
  const auto thrown = on_ranks(2, 60, false, [](Bootstrap& group) {
    const auto comm = open_comm(sym_request(), group);
    EXPECT_THAT(text_of_notes(*comm),
                AllOf(HasSubstr("nccl_sym: NCCL 2."), HasSubstr("NCCL_NVLS_ENABLE=0"), HasSubstr("allreduces: none")));
    EXPECT_GE(comm->device_bytes(), std::int64_t{8} << 20);
    group.barrier("end");
  });
  for (const Thrown& one : thrown) EXPECT_EQ(one.text, "");
}

TEST_F(NcclSym, RanksThatShareAGpuAreRefusedOnBoth) {
  const auto thrown = on_ranks(2, 60, true, [](Bootstrap& group) { open_comm(sym_request(), group); });
  for (const Thrown& one : thrown) {
    EXPECT_TRUE(one.unsupported) << one.text;
    EXPECT_THAT(one.text, HasSubstr("backend nccl_sym: ranks 0 and 1 share GPU"));
  }
}

}  // namespace
}  // namespace specstep::comm
