#include "sim/number_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/test_configs.h"

namespace specstep {
namespace {

using testing::HasSubstr;
using List = std::vector<std::int64_t>;

List numbers(const std::string& text) { return parse_number_list("--batches", text, {.min = 1, .max = 1000}); }
std::string refused(const std::string& text) {
  return refusal_of([&] { numbers(text); });
}

TEST(NumberList, TakesEveryForm) {
  EXPECT_EQ(numbers("7"), (List{7}));
  EXPECT_EQ(numbers("8,1,8"), (List{1, 8}));
  EXPECT_EQ(numbers("2:5"), (List{2, 3, 4, 5}));
  EXPECT_EQ(numbers("1:10:4"), (List{1, 5, 9}));
  EXPECT_EQ(numbers("1:100:x3"), (List{1, 3, 9, 27, 81}));
  EXPECT_EQ(numbers("1:4:x2,3"), (List{1, 2, 3, 4}));
}

TEST(NumberList, RefusesTheRest) {
  EXPECT_THAT(refused(""), HasSubstr("--batches"));
  EXPECT_THAT(refused("1,"), HasSubstr("no whole number"));
  EXPECT_THAT(refused("1.5"), HasSubstr("no whole number"));
  EXPECT_THAT(refused("0"), HasSubstr("0 is out of range"));
  EXPECT_THAT(refused("5:1"), HasSubstr("end is below"));
  EXPECT_THAT(refused("1:8:0"), HasSubstr("does not grow"));
  EXPECT_THAT(refused("1:8:x1"), HasSubstr("does not grow"));
  EXPECT_THAT(refused("1:2:3:4"), HasSubstr("more than start"));
  EXPECT_THAT(refused("1:9223372036854775807"), HasSubstr("out of range"));
  EXPECT_THAT(refusal_of([] { parse_number_list("--n", "1:5000", {.min = 1}); }), HasSubstr("more than 1000"));
}

}  // namespace
}  // namespace specstep
