// Settings of our own backends: what they read, and that ranks with different ones can tell.
#include "comm/own_settings.h"

#include <gmock/gmock.h>

#include "comm/island_plan.h"
#include "comm/test_fabrics.h"

namespace specstep::comm {
namespace {

using testing::HasSubstr;

OwnSettings settings(const std::string& text) { return read_config<OwnSettings>(yaml::parse(text, "o.yaml")); }
std::string refused(const std::string& text) {
  return refusal_of([&] { settings(text); });
}

TEST(OwnSettings, ReadsWhatItIsGiven) {
  EXPECT_EQ(settings("{}"), OwnSettings{});
  EXPECT_FALSE(settings("{}").nvls);
  const OwnSettings own = settings("{wire: ll, islands: [[0, 1], [3, 2]], nvls: true}");
  EXPECT_EQ(own.wire, "ll");
  EXPECT_EQ(own.islands, (std::vector<std::vector<int>>{{0, 1}, {3, 2}}));
  EXPECT_TRUE(own.nvls);
}

TEST(OwnSettings, RefusesWhatNoRankIs) {
  EXPECT_THAT(refused("{islands: [[0, -1]]}"), HasSubstr("o.yaml:1"));
  EXPECT_THAT(refused("{islands: [[0, 8]]}"), HasSubstr("at most 7"));
  EXPECT_THAT(refused("{wire: ll128}"), HasSubstr("sentinel"));
}

// Each of the ranks 0 to n - 1 once, in islands of one size.
TEST(OwnSettings, RefusesListsThatDivideNoRanks) {
  EXPECT_THAT(refused("{islands: [[0, 1, 2, 3], [4, 5, 6, 6]]}"), HasSubstr("islands[1][3]: names rank 6 again"));
  EXPECT_THAT(refused("{islands: [[0, 1], [2, 4]]}"), HasSubstr("islands[1][1]: is 4; a rank below 4"));
  EXPECT_THAT(refused("{islands: [[0, 1, 2], [3]]}"), HasSubstr("islands[1]: has 1 ranks; 3, as the first"));
  EXPECT_THAT(refused("{islands: [[], []]}"), HasSubstr("islands[0]: is empty"));
  EXPECT_THAT(refused("{islands: [[0, 1], []]}"), HasSubstr("islands[1]: is empty"));
  for (const char* good : {"[[0, 1], [2, 3]]", "[[0], [1], [2], [3]]", "[[0, 1, 2, 3]]", "[[3, 1], [2, 0]]", "[]"})
    EXPECT_NO_THROW(settings(std::string("{islands: ") + good + "}")) << good;
}

TEST(OwnSettings, TextsDifferWhereSettingsDo) {
  EXPECT_NE(text_of(settings("{islands: [[0, 1], [2, 3]]}")), text_of(settings("{islands: [[0, 1, 2, 3]]}")));
  EXPECT_NE(text_of(settings("{islands: [[0, 1], [2, 3]]}")), text_of(settings("{}")));
  EXPECT_THAT(text_of(settings("{islands: [[0, 1], [3, 2]]}")), HasSubstr("{0 1} {3 2}"));
}

TEST(Islands, TheCheapestPlanIsThatOfTheSwitches) {
  const Islands found = cheapest_islands(fabric_text(two_switches(4)), 8);
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found.front(), (std::vector<int>{0, 1, 2, 3}));
}

TEST(Islands, WhatDoesNotDivideIsRefused) {
  EXPECT_THROW(cheapest_islands(fabric_text(two_switches(4)), 4), Unsupported);  // all on one switch
  EXPECT_THROW(cheapest_islands(fabric_text(two_switches(4)), 9), Unsupported);  // more than there are
}

}  // namespace
}  // namespace specstep::comm
