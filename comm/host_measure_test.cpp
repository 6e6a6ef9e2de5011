// Device protocols on threads: right sums and times where all ranks call, and a told end where one never does.
#include "comm/host_measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/report/device_report.h"

namespace specstep::comm {
namespace {

using testing::HasSubstr;

MeasureRequest request(int ranks, std::vector<std::string> backends) {
  MeasureRequest out;
  out.ranks = ranks;
  out.backends = std::move(backends);
  out.sizes = {8192};
  out.calls = 5;
  out.wait_limit_seconds = 30;
  return out;
}

TEST(HostMeasure, EveryProtocolSumsAndIsTimed) {
  const Measurement m = measure_on_host(request(4, {}));
  ASSERT_EQ(m.backends.size(), host_backends().size());
  for (const MeasuredBackend& b : m.backends) {
    EXPECT_TRUE(b.failures.empty()) << b.id << ": " << b.failures.front();
    ASSERT_EQ(b.sizes.size(), 1u) << b.id;
    EXPECT_EQ(b.sizes[0].checked, 4 * 4096) << b.id;
    EXPECT_EQ(b.sizes[0].wrong, 0) << b.id;
    ASSERT_TRUE(b.sizes[0].eager) << b.id;
    EXPECT_GT(b.sizes[0].eager->median, 0) << b.id;
  }
  EXPECT_FALSE(any_failed(m));
}

// Hangs at 2 ranks and completes at 4: reported on two PCIe hosts in 2026 (NVIDIA/nccl#2079 and others).
TEST(HostMeasure, ARankThatNeverCallsIsToldWithRanksBytesAndBackend) {
  MeasureRequest stuck = request(2, {"push1", "pull1"});
  stuck.fault = CommFault{1, 0, 0};
  stuck.wait_limit_seconds = 0.2;
  const Measurement m = measure_on_host(stuck);
  for (const MeasuredBackend& b : m.backends) {
    ASSERT_EQ(b.failures.size(), 1u) << b.id;
    EXPECT_THAT(b.failures[0], HasSubstr("2 ranks, 8,192 B: no end within 0.2 s"));
    EXPECT_THAT(b.failures[0], HasSubstr("waited in vain for rank 1"));
    EXPECT_THAT(hang_hint(b), HasSubstr("ACS"));
  }
  EXPECT_TRUE(any_failed(m));
  EXPECT_THAT(device_text(device_report(m, "threads", nullptr)), HasSubstr("hint: "));
}

TEST(HostMeasure, AFailureThatIsNoHangHasNoHint) {
  MeasuredBackend wrong;
  wrong.failures = {"out of memory"};
  EXPECT_EQ(hang_hint(wrong), "");
}

TEST(HostMeasure, WhatThreadsCannotDoIsRefused) {
  const Measurement m = measure_on_host(request(2, {"nccl"}));
  EXPECT_THAT(m.backends.at(0).refusal, HasSubstr("has no protocol on threads"));
  EXPECT_THROW(measure_on_host(request(9, {})), InputError);
  MeasureRequest f32 = request(2, {});
  f32.dtype = DType::f32;
  EXPECT_THROW(measure_on_host(f32), InputError);
}

}  // namespace
}  // namespace specstep::comm
