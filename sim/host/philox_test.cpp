#include "sim/host/philox.h"

#include <gtest/gtest.h>

namespace specstep::host {
namespace {

// Known answers of Random123 1.14 (DEShawResearch/random123, tests/kat_vectors, BSD-3-Clause), "philox4x32 10".
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr std::uint32_t ones = 0xffffffff;
  EXPECT_EQ(philox({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UnitsCoverTheirRange) {
  EXPECT_EQ(signed_unit(0), -1.0F);
  EXPECT_LT(signed_unit(0xffffffff), 1.0F);
  EXPECT_EQ(unit({0, 0, 7, 7}), 0.0);
  EXPECT_LT(unit({0xffffffff, 0xffffffff, 0, 0}), 1.0);
  EXPECT_EQ(unit({0x80000000, 0, 0, 0}), 0.5);
}

}  // namespace
}  // namespace specstep::host
