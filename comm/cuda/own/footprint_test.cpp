// What our backends take on a device is what was said of them without one.
#include "comm/footprint.h"

#include "comm/cuda/own/test_own.h"

namespace specstep::comm {
namespace {

class OwnFootprint : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Backends, OwnFootprint,
                         testing::Values("push1", "pull1", "rsag", "island", "ring", "hostbc", "q8", "ce"),
                         [](const auto& one) { return one.param; });

TEST_P(OwnFootprint, IsWhatTheDeviceGives) {
  if (visible_gpus() == 0) GTEST_SKIP() << "no GPU here";
  constexpr int ranks = 2;
  const Footprint said = footprint_of(GetParam(), ranks, 64 << 10);
  const auto thrown = on_ranks(ranks, 20, visible_gpus() < ranks, [&](Bootstrap& group) {
    CommRequest request;
    request.backend = GetParam();
    request.own.largest_kib = 64;
    request.own.islands = {{0}, {1}};
    const auto comm = open_comm(request, group);
    // Room for the flags of fewer blocks may be less.
    EXPECT_NEAR(static_cast<double>(comm->device_bytes()), static_cast<double>(said.device), 4096);
    group.barrier("done");
  });
  for (const Thrown& one : thrown) EXPECT_EQ(one.text, "");
}

}  // namespace
}  // namespace specstep::comm
