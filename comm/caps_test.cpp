// What backends say of themselves agrees with what else the tree knows of them.
#include "comm/caps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/backend.h"
#include "comm/dispatch.h"
#include "comm/footprint.h"
#include "model/base/error.h"

namespace specstep::comm {
namespace {

using testing::HasSubstr;

TEST(Caps, EveryBackendHasThem) {
  for (const BackendRow& row : backends()) {
    const Caps& caps = caps_of(row.id);
    EXPECT_FALSE(caps.dtypes.empty()) << row.id;
    // A price needs of the fabric what the backend needs of the machine.
    EXPECT_TRUE(!row.needs.p2p || caps.needs_p2p) << row.id;
    EXPECT_TRUE(!row.needs.multicast || caps.needs_nvlink) << row.id;
    EXPECT_EQ(row.needs.host_memory, caps.needs_host_memory) << row.id;
    EXPECT_EQ(gives_sum(row.id), caps.exchanges && caps.lossless) << row.id;
  }
  EXPECT_THROW(caps_of("nccll"), InputError);
}

TEST(Caps, HostMemoryIsWhatTheFootprintHas) {
  for (const BackendRow& row : backends()) {
    const Footprint f = footprint_of(row.id, 8, 65536);
    if (!f.known) continue;
    EXPECT_EQ(f.host_pinned > 0, caps_of(row.id).needs_host_memory) << row.id;
  }
}

TEST(Caps, DeterminismIsSaidInThreeStatements) {
  EXPECT_EQ(determinism_text(caps_of("push1")),
            "run to run identical; rank to rank identical; equal to the fp32 sum in rank order, rounded once");
  EXPECT_EQ(determinism_text(caps_of("ring")), "run to run identical; rank to rank identical");
  EXPECT_THAT(determinism_text(caps_of("nvls")), HasSubstr("runs may differ"));
  EXPECT_EQ(determinism_text(caps_of("null")), "no sums");
}

}  // namespace
}  // namespace specstep::comm
