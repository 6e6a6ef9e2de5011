// The table of device backends, and those that exchange nothing.
#include <gmock/gmock.h>

#include "comm/cuda/delay_clock.h"
#include "comm/cuda/test_device.h"
#include "comm/pricing.h"
#include "comm/test_fabrics.h"
#include "model/base/units.h"

namespace specstep::comm {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Eight GPUs whose prices are tens of microseconds: far above any floor.
Topology target() { return fabric_text(two_switches(4)); }

std::unique_ptr<Bootstrap> alone() { return std::move(thread_bootstrap(1, 10).front()); }

CommRequest delay_request(const Topology& topology, int target_ranks = 8) {
  CommRequest request;
  request.backend = "delay";
  request.target = &topology;
  request.target_ranks = target_ranks;
  return request;
}

Integers counting(std::size_t count, int from) {
  Integers out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = from + static_cast<int>(i % 100);
  return out;
}

TEST(OpenComm, ABackendWithoutDeviceVersionIsRefusedWithThoseThereAre) {
  CommRequest request;
  request.backend = "push9";
  const auto group = alone();
  try {
    open_comm(request, *group);
    FAIL() << "opened";
  } catch (const Unsupported& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("push9"), HasSubstr("nccl, nccl_sym, nccl_dev, push1")));
  }
}

TEST(OpenComm, DelayRefusesMoreRanksThanTheTargetHas) {
  const Topology topology = target();
  const auto group = alone();
  EXPECT_THROW(open_comm(delay_request(topology, 9), *group), Unsupported);
  const auto two = thread_bootstrap(2, 10);
  EXPECT_THROW(open_comm(delay_request(topology, 1), *two.front()), Unsupported);
}

class Device : public testing::Test {
 protected:
  void SetUp() override {
    if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
  }

  /// Rank `rank` of four with parts of `count` bf16 values: its own part is in place, the rest as it was.
  static std::string faults_of_copies(DeviceComm& comm, int rank, std::int64_t count, std::size_t offset) {
    constexpr int ranks = 4;
    const auto n = static_cast<std::size_t>(count);
    const auto own = static_cast<std::ptrdiff_t>(n) * rank;
    const Integers before(n * ranks + offset, 7);
    const Integers whole = counting(n * ranks + offset, 0);
    const Integers part(whole.begin() + static_cast<std::ptrdiff_t>(offset) + own,
                        whole.begin() + static_cast<std::ptrdiff_t>(offset) + own + count);
    Integers placed = before;
    std::copy(part.begin(), part.end(), placed.begin() + static_cast<std::ptrdiff_t>(offset) + own);

    const Stream stream = make_stream();
    const DeviceBytes in(whole, DType::bf16), gathered(before, DType::bf16), exchanged(before, DType::bf16);
    const DeviceBytes scattered(n * 2), mine(part, DType::bf16), summed(part, DType::bf16);
    const std::size_t skip = offset * 2;
    comm.all_reduce(summed.data(), count, DType::bf16, stream.get());
    comm.all_gather(mine.data(), gathered.data() + skip, count, DType::bf16, stream.get());
    comm.reduce_scatter(in.data() + skip, scattered.data(), count, DType::bf16, stream.get());
    comm.all_to_all(in.data() + skip, exchanged.data() + skip, count, DType::bf16, stream.get());
    // In place: the own part lies where it belongs.
    comm.all_gather(in.data() + skip + static_cast<std::size_t>(own) * 2, in.data() + skip, count, DType::bf16,
                    stream.get());
    wait_for(stream.get(), comm, 20, "the copies");
    return difference(summed.read(), part, DType::bf16, "all_reduce") +
           difference(gathered.read(), placed, DType::bf16, "all_gather") +
           difference(scattered.read(), part, DType::bf16, "reduce_scatter") +
           difference(exchanged.read(), placed, DType::bf16, "all_to_all") +
           difference(in.read(), whole, DType::bf16, "all_gather in place");
  }

  /// Sizes below and above one block, with ends that are whole packs of 16 bytes and ends that are not.
  static void expect_copies(const CommRequest& request, int group_ranks) {
    auto ends = thread_bootstrap(group_ranks, 10);
    for (int rank = 0; rank < group_ranks; ++rank) {
      const auto comm = open_comm(request, *ends[static_cast<std::size_t>(rank)]);
      for (const std::int64_t count : {1, 8, 5001, 100003})
        for (const std::size_t offset : {0u, 1u})
          EXPECT_EQ(faults_of_copies(*comm, rank, count, offset), "")
              << request.backend << ", rank " << rank << ", " << count << " values, offset " << offset;
    }
  }
};

TEST_F(Device, NullPutsTheOwnPartInPlaceAndLeavesTheRest) {
  CommRequest request;
  request.backend = "null";
  expect_copies(request, 4);
}

TEST_F(Device, DelayPutsTheOwnPartInPlaceAndLeavesTheRest) {
  const Topology topology = target();
  expect_copies(delay_request(topology), 2);
}

TEST_F(Device, OnlyFloatsAreCarried) {
  CommRequest request;
  request.backend = "null";
  const auto group = alone();
  EXPECT_THROW(open_comm(request, *group)->all_reduce(nullptr, 8, DType::int8, nullptr), Unsupported);
}

TEST_F(Device, DelayLastsAtLeastThePriceAndSaysItsFloor) {
  constexpr int calls = 50;
  constexpr std::int64_t count = 7168;
  const Topology topology = target();
  const auto group = alone();
  const auto comm = open_comm(delay_request(topology), *group);
  const Stream stream = make_stream();
  const DeviceBytes values(Integers(count, 1), DType::bf16);
  const GraphExec graph = capture(stream.get(), [&] {
    for (int i = 0; i < calls; ++i) comm->all_reduce(values.data(), count, DType::bf16, stream.get());
  });
  const Event begin = make_event(), end = make_event();
  check(cudaGraphLaunch(graph.get(), stream.get()), "warming up");
  check(cudaEventRecord(begin.get(), stream.get()), "recording");
  check(cudaGraphLaunch(graph.get(), stream.get()), "launching");
  check(cudaEventRecord(end.get(), stream.get()), "recording");
  wait_for(stream.get(), *comm, 20, "the waits");
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "reading");

  const double price = specstep::comm::price("nccl", topology, {Collective::all_reduce, 8, 2 * count}).seconds;
  ASSERT_GT(price, 10 * us) << "a price this low tests nothing";
  std::string notes;
  for (const std::string& note : comm->notes()) notes += note + "\n";
  // A lower bound holds however busy the machine is; what is subtracted may be 5 % off on a busy one.
  EXPECT_GE(static_cast<double>(milliseconds) * ms, 0.95 * calls * price) << notes;
  EXPECT_LE(static_cast<double>(milliseconds) * ms, 5 * calls * price) << "a wrong unit\n" << notes;
  EXPECT_THAT(notes, AllOf(HasSubstr("floor"), HasSubstr("jitter"), HasSubstr("rank 0 of 8"),
                           HasSubstr("all_reduce of 14.0 KiB"), HasSubstr(seconds_text(price)), HasSubstr("captured")));
}

TEST_F(Device, DelayRefusesWaitsOfSeconds) {
  const Topology topology = target();
  const auto group = alone();
  const auto comm = open_comm(delay_request(topology), *group);
  const std::int64_t values = std::int64_t{1} << 36;  // a quarter of a terabyte; all_reduce touches none of it
  EXPECT_THROW(comm->all_reduce(nullptr, values, DType::f32, nullptr), Error);
}

TEST_F(Device, DelayClockSubtractsWhatANodeCosts) {
  const DelayClock clock;
  EXPECT_GT(clock.floor_seconds(), 0.1 * us) << clock.text();
  EXPECT_LT(clock.floor_seconds(), 100 * us) << clock.text();
  EXPECT_EQ(clock.ticks_for(0), 0u);
  EXPECT_EQ(clock.ticks_for(clock.floor_seconds() / 2), 0u);
  const auto one = static_cast<double>(clock.ticks_for(1 * ms));
  const auto two = static_cast<double>(clock.ticks_for(2 * ms));
  // Twice the node is more than twice the wait, by one overhead.
  EXPECT_NEAR((two - one) / one, 1 * ms / (1 * ms - clock.overhead_seconds()), 0.001) << clock.text();
}

}  // namespace
}  // namespace specstep::comm
