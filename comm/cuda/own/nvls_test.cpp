// nvls is refused unless it was asked for. Nothing here runs it: it changes the state of NVLink switches.
#include <gmock/gmock.h>

#include "comm/cuda/test_device.h"

namespace specstep::comm {
namespace {

TEST(Nvls, IsNotUsedUnlessAskedFor) {
  CommRequest request;
  request.backend = "nvls";
  const auto ends = thread_bootstrap(2, 10);
  try {
    open_comm(request, *ends.front());
    FAIL() << "opened";
  } catch (const Unsupported& e) {
    EXPECT_THAT(e.what(), testing::HasSubstr("comm.own.nvls"));
  }
  EXPECT_FALSE(OwnSettings{}.nvls);
}

TEST(Nvls, OneRankIsRefused) {
  CommRequest request;
  request.backend = "nvls";
  request.own.nvls = true;
  const auto ends = thread_bootstrap(1, 10);
  EXPECT_THROW(open_comm(request, *ends.front()), Unsupported);
}

}  // namespace
}  // namespace specstep::comm
