// NCCL among the GPUs of this machine, ranks as threads. Integers, so that every sum is exact.
#include <gmock/gmock.h>

#include <algorithm>

#include "comm/cuda/nccl_group.h"
#include "comm/cuda/test_device.h"

namespace specstep::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

CommRequest nccl_request(double limit_seconds) {
  CommRequest request;
  request.backend = "nccl";
  request.wait_limit_seconds = limit_seconds;
  return request;
}

/// Value `i` that rank `from` has for rank `to`.
int value(int from, int to, std::int64_t i) { return from * 8 + to * 3 + static_cast<int>(i % 11); }

Integers values_of(std::int64_t count, const std::function<int(std::int64_t)>& at) {
  Integers out;
  for (std::int64_t i = 0; i < count; ++i) out.push_back(at(i));
  return out;
}

/// One rank's arrays for one size and type, all four calls, and what must come out.
class Exercise {
 public:
  Exercise(const Bootstrap& group, std::int64_t count, DType dtype)
      : rank_(group.rank()),
        ranks_(group.ranks()),
        count_(count),
        dtype_(dtype),
        mine_(values_of(count, [&](std::int64_t i) { return value(rank_, 0, i); }), dtype),
        for_all_(values_of(count * ranks_,
                           [&](std::int64_t i) { return value(rank_, static_cast<int>(i / count), i % count); }),
                 dtype),
        reduced_(mine_.size()),
        gathered_(for_all_.size()),
        scattered_(mine_.size()),
        exchanged_(for_all_.size()) {}

  void run(DeviceComm& comm, cudaStream_t stream) const {
    for (const DeviceBytes* out : {&gathered_, &scattered_, &exchanged_})
      check(cudaMemsetAsync(out->data(), 0xff, out->size(), stream), "spoiling an output");
    check(cudaMemcpyAsync(reduced_.data(), mine_.data(), mine_.size(), cudaMemcpyDeviceToDevice, stream), "copying");
    comm.all_reduce(reduced_.data(), count_, dtype_, stream);
    comm.all_gather(mine_.data(), gathered_.data(), count_, dtype_, stream);
    comm.reduce_scatter(for_all_.data(), scattered_.data(), count_, dtype_, stream);
    comm.all_to_all(for_all_.data(), exchanged_.data(), count_, dtype_, stream);
  }

  std::string faults(const std::string& when) const {
    const auto sum = [&](int to, std::int64_t i) {
      int total = 0;
      for (int r = 0; r < ranks_; ++r) total += value(r, to, i);
      return total;
    };
    const std::string place = formatted("{}, rank {} of {}: ", when, rank_, ranks_);
    const auto part = [&](std::int64_t i) { return static_cast<int>(i / count_); };
    return difference(reduced_.read(), values_of(count_, [&](std::int64_t i) { return sum(0, i); }), dtype_,
                      place + "all_reduce") +
           difference(scattered_.read(), values_of(count_, [&](std::int64_t i) { return sum(rank_, i); }), dtype_,
                      place + "reduce_scatter") +
           difference(gathered_.read(),
                      values_of(count_ * ranks_, [&](std::int64_t i) { return value(part(i), 0, i % count_); }), dtype_,
                      place + "all_gather") +
           difference(exchanged_.read(),
                      values_of(count_ * ranks_, [&](std::int64_t i) { return value(part(i), rank_, i % count_); }),
                      dtype_, place + "all_to_all");
  }

 private:
  int rank_, ranks_;
  std::int64_t count_;
  DType dtype_;
  DeviceBytes mine_, for_all_, reduced_, gathered_, scattered_, exchanged_;
};

void exercise_all(Bootstrap& group) {
  constexpr double limit = 60;
  const auto comm = open_comm(nccl_request(limit), group);
  const Stream stream = make_stream();
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const std::int64_t count : {1, 7, 1000, 7168}) {
      const Exercise exercise(group, count, dtype);
      exercise.run(*comm, stream.get());
      wait_for(stream.get(), *comm, limit, "the eager calls");
      const std::string eager = exercise.faults("eager");
      if (!eager.empty()) throw Error(eager);
      const GraphExec graph = capture(stream.get(), [&] { exercise.run(*comm, stream.get()); });
      for (int replay = 1; replay <= 100; ++replay) {
        check(cudaGraphLaunch(graph.get(), stream.get()), "replaying");
        if (replay % 25 != 0) continue;
        wait_for(stream.get(), *comm, limit, "the replays");
        const std::string captured = exercise.faults(formatted("replay {}", replay));
        if (!captured.empty()) throw Error(captured);
      }
      group.barrier("next size");
    }
  comm->check_health();
  group.barrier("end");
}

/// What each of two ranks is told, which needs no GPU.
std::vector<std::string> told(const NcclMember& first, const NcclMember& second, std::string_view backend = "nccl") {
  auto ends = thread_bootstrap(2, 60);
  std::vector<std::string> out(2);
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      try {
        require_nccl_group(r == 0 ? first : second, *ends[r], backend);
      } catch (const Unsupported& e) {
        out[r] = e.what();
      }
    });
  threads.clear();
  return out;
}

const NcclMember one_gpu{"", "0000:01:00.0 of a", "2.28.9", "x"};

TEST(NcclGroup, TakesRanksOnGpusOfTheirOwn) {
  EXPECT_THAT(told(one_gpu, {"", "0000:02:00.0 of a", "2.28.9", "x"}), testing::Each(""));
  EXPECT_THAT(told(one_gpu, {"", "0000:01:00.0 of b", "2.28.9", "x"}), testing::Each(""));
}

TEST(NcclGroup, TellsBothRanksWhyNot) {
  EXPECT_THAT(told(one_gpu, one_gpu), testing::Each(HasSubstr("ranks 0 and 1 share GPU 0000:01:00.0 of a")));
  EXPECT_THAT(told(one_gpu, one_gpu, "nccl_sym"), testing::Each(HasSubstr("backend nccl_sym: ranks 0 and 1")));
  EXPECT_THAT(told(one_gpu, {"no library", "0000:02:00.0 of a", "", ""}),
              testing::Each(HasSubstr("rank 1: no library")));
  EXPECT_THAT(told(one_gpu, {"", "0000:02:00.0 of a", "2.27.3", "x"}),
              testing::Each(HasSubstr("2.28.9 on rank 0, 2.27.3 on rank 1")));
  EXPECT_THAT(told(one_gpu, {"", "0000:02:00.0 of a", "2.28.9", "y"}), testing::Each(HasSubstr("settings differ")));
}

class Nccl : public testing::Test {
 protected:
  void SetUp() override {
    if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
    const auto missing = on_ranks(1, 60, true, [](Bootstrap& group) { open_comm(nccl_request(60), group); });
    if (missing.front().unsupported) GTEST_SKIP() << missing.front().text;
    ASSERT_EQ(missing.front().text, "");
  }
};

TEST_F(Nccl, OneRankOnlyCopies) {
  for (const Thrown& thrown : on_ranks(1, 60, true, exercise_all)) EXPECT_EQ(thrown.text, "");
}

TEST_F(Nccl, AllCollectivesAreExactEagerAndCaptured) {
  const int ranks = std::min(2, visible_gpus());
  if (ranks < 2) GTEST_SKIP() << "one GPU: no two ranks";
  for (const Thrown& thrown : on_ranks(ranks, 120, false, exercise_all)) EXPECT_EQ(thrown.text, "");
}

TEST_F(Nccl, NotesNameVersionAndSettings) {
  if (visible_gpus() < 2) GTEST_SKIP() << "one GPU: no two ranks";
  std::string notes;
  const auto thrown = on_ranks(2, 120, false, [&](Bootstrap& group) {
    CommRequest request = nccl_request(60);
    request.nccl.max_channels = 2;
    const auto comm = open_comm(request, group);
    if (group.rank() == 0)
      for (const std::string& note : comm->notes()) notes += note + "\n";
    group.barrier("end");
  });
  for (const Thrown& t : thrown) EXPECT_EQ(t.text, "");
  EXPECT_THAT(notes, AllOf(HasSubstr("NCCL 2."), HasSubstr("at most: 2"), HasSubstr("NCCL_NVLS_ENABLE=0")));
}

TEST_F(Nccl, TwoRanksOnOneGpuAreRefusedOnBoth) {
  const auto thrown = on_ranks(2, 120, true, [](Bootstrap& group) { open_comm(nccl_request(60), group); });
  for (const Thrown& t : thrown) {
    EXPECT_TRUE(t.unsupported) << t.text;
    EXPECT_THAT(t.text, HasSubstr("ranks 0 and 1 share GPU"));
  }
}

TEST_F(Nccl, RanksWithOtherSettingsAreRefusedOnBoth) {
  if (visible_gpus() < 2) GTEST_SKIP() << "one GPU: no two ranks";
  const auto thrown = on_ranks(2, 120, false, [](Bootstrap& group) {
    CommRequest request = nccl_request(60);
    request.nccl.max_channels = 1 + group.rank();
    open_comm(request, group);
  });
  for (const Thrown& t : thrown) EXPECT_THAT(t.text, HasSubstr("settings differ"));
}

TEST_F(Nccl, SettingsThatNcclHasReadCannotChange) {
  const auto thrown = on_ranks(1, 60, true, [](Bootstrap& group) {
    CommRequest request = nccl_request(60);
    request.nccl.protocol = "LL";
    open_comm(request, group);
  });
  EXPECT_THAT(thrown.front().text, HasSubstr("once in a process"));
}

TEST_F(Nccl, ARankThatDoesNotOpenIsNamed) {
  const auto thrown = on_ranks(2, 0.5, true, [](Bootstrap& group) {
    if (group.rank() == 0) open_comm(nccl_request(0.5), group);
  });
  EXPECT_THAT(thrown[0].text, HasSubstr("rank 1 did not arrive at 'a device on every rank, for nccl'"));
}

TEST_F(Nccl, ARankThatDoesNotCallEndsTheOthersWithinTheLimit) {
  if (visible_gpus() < 2) GTEST_SKIP() << "one GPU: no two ranks";
  constexpr double limit = 10;  // opening must fit as well
  const auto thrown = on_ranks(2, 120, false, [](Bootstrap& group) {
    const auto comm = open_comm(nccl_request(limit), group);
    const Stream stream = make_stream();
    const DeviceBytes values(Integers(1000, 1), DType::f32);
    comm->all_reduce(values.data(), 1000, DType::f32, stream.get());
    wait_for(stream.get(), *comm, limit, "a call of both");
    group.barrier("both have called");
    if (group.rank() == 1) return;
    comm->all_reduce(values.data(), 1000, DType::f32, stream.get());
    wait_for(stream.get(), *comm, 2, "a call of one");
  });
  EXPECT_THAT(thrown[0].text, HasSubstr("a call of one: not done within 2 s"));
  EXPECT_EQ(thrown[1].text, "");
}

}  // namespace
}  // namespace specstep::comm
