// Measuring allreduces: ranks share one GPU.
#include "sim/cuda/comm_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/cuda/bench/probe.h"
#include "comm/cuda/test_device.h"
#include "comm/report/device_report.h"

namespace specstep::cuda {
namespace {

using testing::HasSubstr;

comm::MeasureRequest four_on_one() {
  comm::MeasureRequest request;
  request.devices = {0, 0, 0, 0};
  request.backends = {"push1", "rsag", "nccl"};
  request.sizes = {2048, 14336, 43008};
  request.calls = 16;
  request.replays = 8;
  request.seconds_each = 0.05;
  request.wait_limit_seconds = 10;
  return request;
}

class CommBenchOnDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (comm::visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
  }
};

TEST(CommBench, WithoutADeviceIsUnsupported) {
  if (comm::visible_gpus() > 0) GTEST_SKIP() << "a GPU here";
  EXPECT_THROW(measure_comm(four_on_one()), Unsupported);
}

TEST_F(CommBenchOnDevice, ChecksAndTimesEveryBackendThatServes) {
  const CommBenchmark found = measure_comm(four_on_one());
  EXPECT_EQ(found.measured.ranks, 4);
  EXPECT_EQ(found.measured.ranks_per_device, 4);
  ASSERT_EQ(found.measured.backends.size(), 3U);
  for (const auto& backend : {found.measured.backends[0], found.measured.backends[1]}) {
    EXPECT_EQ(backend.refusal, "") << backend.id;
    EXPECT_TRUE(backend.failures.empty()) << backend.id << ": " << backend.failures.front();
    ASSERT_EQ(backend.sizes.size(), 3U) << backend.id;
    for (const comm::MeasuredSize& size : backend.sizes) {
      EXPECT_EQ(size.checked, 2 * 4 * size.bytes / 2 * 4) << backend.id;
      EXPECT_EQ(size.wrong, 0) << backend.id << " at " << size.bytes;
      ASSERT_TRUE(size.graph && size.cold && size.eager) << backend.id;
      EXPECT_GT(size.graph->least, 0) << backend.id;
      EXPECT_LE(size.graph->least, size.graph->median) << backend.id;
      EXPECT_LE(size.graph->median, size.graph->p99) << backend.id;
      EXPECT_EQ(size.graph->calls, 16) << backend.id;
    }
  }
  EXPECT_NE(found.measured.backends[2].refusal, "");  // NCCL, or none, or ranks that share a GPU
  EXPECT_FALSE(comm::any_failed(found.measured));
}

TEST_F(CommBenchOnDevice, NormsAreTimedOfWholeRowsWhereABackendFusesThem) {
  comm::MeasureRequest request = four_on_one();
  request.backends = {"push1", "hostbc"};
  request.norm = true;
  request.width = 1024;
  request.sizes = {2048, 4096, 5120};
  const CommBenchmark found = measure_comm(request);
  const auto& push = found.measured.backends.at(0).sizes;
  ASSERT_EQ(push.size(), 3U);
  for (const std::size_t whole : {0U, 1U}) {
    ASSERT_TRUE(push[whole].fused && push[whole].pair);
    EXPECT_GT(push[whole].fused->least, 0);
    EXPECT_GT(push[whole].pair->least, 0);
  }
  EXPECT_FALSE(push[2].fused || push[2].pair);  // two and a half rows
  for (const comm::MeasuredSize& size : found.measured.backends.at(1).sizes) EXPECT_FALSE(size.fused || size.pair);
}

TEST_F(CommBenchOnDevice, ACheckAloneTimesNothing) {
  comm::MeasureRequest request = four_on_one();
  request.check_only = true;
  const CommBenchmark found = measure_comm(request);
  EXPECT_GT(found.measured.backends[0].sizes.at(0).checked, 0);
  EXPECT_FALSE(found.measured.backends[0].sizes.at(0).graph);
}

TEST_F(CommBenchOnDevice, ARankThatMakesNoCallIsNamedAndTheNextBackendGoesOn) {
  comm::MeasureRequest request = four_on_one();
  request.wait_limit_seconds = 1;
  request.fault = comm::CommFault{3, 5};
  request.backends = {"push1", "rsag"};
  const CommBenchmark found = measure_comm(request);
  ASSERT_EQ(found.measured.backends.size(), 2U);
  for (const comm::MeasuredBackend& backend : found.measured.backends) {
    ASSERT_FALSE(backend.failures.empty()) << backend.id;
    EXPECT_THAT(backend.failures, testing::Contains(HasSubstr("for rank 3"))) << backend.id;
  }
}

TEST_F(CommBenchOnDevice, DevicesThatDoNotExistOrDoNotFitAreRefused) {
  comm::MeasureRequest request = four_on_one();
  request.devices = {0, 1000};
  EXPECT_THROW(measure_comm(request), InputError);
  request.devices = {0};
  request.ranks = 2;
  EXPECT_THROW(measure_comm(request), InputError);
}

TEST_F(CommBenchOnDevice, AProbeGivesAllRanksOneTableOfBackendsThatServe) {
  std::vector<comm::Probe> probes(3);
  const auto thrown = comm::on_ranks(3, 60, true, [&](comm::Bootstrap& group) {
    comm::CommRequest request;
    request.wait_limit_seconds = 10;
    probes[static_cast<std::size_t>(group.rank())] = comm::probe(request, DType::bf16, 1, group);
  });
  for (const comm::Thrown& one : thrown) EXPECT_EQ(one.text, "");
  ASSERT_FALSE(probes[0].selection.rows.empty());
  for (const comm::Probe& probe : probes) {
    EXPECT_EQ(probe.selection.rows, probes[0].selection.rows);
    for (const comm::SelectedRow& row : probe.selection.rows) EXPECT_TRUE(probe.serves(row.backend)) << row.backend;
    EXPECT_FALSE(probe.serves("nccl"));
    EXPECT_THAT(probe.notes, testing::Contains(HasSubstr("auto left nccl out")));
  }
}

}  // namespace
}  // namespace specstep::cuda
