// Footprints against what each protocol must hold, counted by hand.
#include "comm/footprint.h"

#include <gtest/gtest.h>

#include "model/base/error.h"

namespace specstep::comm {
namespace {

constexpr std::int64_t mib = 1 << 20;

/// Bytes of inboxes in messages: without the room for other collectives and the flags, which are below a tenth of one.
double messages(const std::string& backend, int ranks) {
  const Footprint f = footprint_of(backend, ranks, 16 * mib);
  return (static_cast<double>(f.device + f.host_pinned) - static_cast<double>(own_exchange_bytes)) /
         static_cast<double>(16 * mib);
}

TEST(Footprint, InboxesHoldWhatTheirProtocolNeeds) {
  constexpr int ranks = 8;
  constexpr double flags = 0.01;
  EXPECT_NEAR(messages("push1", ranks), 2 * ranks, flags);  // two halves, a message of each rank
  EXPECT_NEAR(messages("pull1", ranks), 1, flags);
  EXPECT_NEAR(messages("rsag", ranks), 4, flags);        // two halves, parts and results
  EXPECT_NEAR(messages("island", ranks), 4 + 2, flags);  // and fp32 of two islands' quarters: 2 halves x 2 x 1/4 x 2
  EXPECT_NEAR(messages("ring", ranks), 2 * 7.0 / 8 * 6, flags);
  EXPECT_NEAR(messages("hostbc", ranks), 2, flags);  // two halves; pairs of short messages beside them
  EXPECT_NEAR(messages("q8", ranks), 4 * 17.0 / 32, flags);
  EXPECT_NEAR(messages("ce", ranks), 1 + 1.0 / 8 + 1, flags);  // parts, own sums, all sums
}

TEST(Footprint, OnlyHostBroadcastLiesInHostMemory) {
  const Footprint host = footprint_of("hostbc", 4, mib);
  EXPECT_EQ(host.device, 0U);
  EXPECT_EQ(host.mapped_peer, 3 * host.host_pinned);
  const Footprint device = footprint_of("push1", 4, mib);
  EXPECT_EQ(device.host_pinned, 0U);
  EXPECT_EQ(device.mapped_peer, 3 * device.device);
}

TEST(Footprint, FollowsTheSettings) {
  const auto bytes = [](const std::string& backend, const OwnSettings& own) {
    return static_cast<double>(footprint_of(backend, 8, 8 * mib, own).device);
  };
  EXPECT_NEAR(bytes("push1", {.wire = "ll"}) / bytes("push1", {}), 2, 0.02);          // pairs: 4 n instead of 2 n
  EXPECT_NEAR(bytes("push1", {.largest_kib = 32768}) / bytes("push1", {}), 4, 0.04);  // 32 MiB in one piece
  const double of_two = bytes("island", {.islands = {{0, 1, 2, 3}, {4, 5, 6, 7}}});
  const double of_four = bytes("island", {.islands = {{0, 1}, {2, 3}, {4, 5}, {6, 7}}});
  EXPECT_NEAR(of_two, bytes("island", {}), 1);
  EXPECT_NEAR(of_four - of_two, (8 - 2) * 8.0 * mib, 0.1 * mib);  // 4 i / m messages: 4 x 4 / 2 and 4 x 2 / 4
}

TEST(Footprint, LibrariesSayItOnlyOnceTheyAreOpen) {
  EXPECT_FALSE(footprint_of("nccl", 8, mib).known);
  EXPECT_EQ(footprint_of("null", 8, mib).device, 0U);
  EXPECT_THROW(footprint_of("push1", 0, mib), Unsupported);
}

}  // namespace
}  // namespace specstep::comm
