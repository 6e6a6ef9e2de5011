// Places and faults of JSON files.
#include "model/import/json_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace specstep {
namespace {

using testing::HasSubstr;

std::string fault(const std::string& text) {
  try {
    parse_json_file(text, "c.json");
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(JsonFile, KnowsWhereEachKeyStands) {
  const JsonFile file = parse_json_file("{\n  \"a\": 1,\n  \"b\": {\"c\\\"d\": [1, {\"e\": null}]}\n}\n", "c.json");
  EXPECT_EQ(file.at("a").text(), "c.json:2:3");
  EXPECT_EQ(file.at("b.c\"d").text(), "c.json:3:9");
  EXPECT_EQ(file.at("b.unknown").text(), "c.json:3:3");  // the closest parent
  EXPECT_EQ(file.at("unknown").text(), "c.json");
  EXPECT_EQ(file.root->dump(), R"({"a":1,"b":{"c\"d":[1,{"e":null}]}})");
}

TEST(JsonFile, DuplicateKeysAreRefusedEachWithItsPlace) {
  const std::string text = fault("{\n \"a\": 1,\n \"b\": {\"c\": 1, \"c\": 2},\n \"a\": 3\n}");
  EXPECT_THAT(text, HasSubstr("c.json:3:16: b.c: a second time (the first is at line 3); once"));
  EXPECT_THAT(text, HasSubstr("c.json:4:2: a: a second time (the first is at line 2); once"));
}

TEST(JsonFile, SyntaxErrorsHaveLineAndColumn) {
  EXPECT_THAT(fault("{\n \"a\": 1,\n \"b\" 2\n}"), HasSubstr("c.json:3:6: syntax error"));
  EXPECT_THAT(fault("{\"a\": 1"), HasSubstr("c.json:1:"));
  EXPECT_THAT(fault(""), HasSubstr("c.json:1:1: syntax error"));
  EXPECT_THAT(fault("{} {}"), HasSubstr("c.json:1:4: syntax error"));
  EXPECT_THAT(fault("{\"a\": Infinity}"), HasSubstr("c.json:1:7: syntax error"));
  EXPECT_THAT(fault("[1]"), HasSubstr("c.json:1:1: is array; an object"));
}

TEST(JsonFile, DeepNestingIsRefused) {
  EXPECT_THAT(fault("{\"a\": " + std::string(100'000, '[')), HasSubstr("nested deeper than 64"));
}

TEST(JsonFile, AVeryLongNumberIsANumber) {
  const JsonFile file = parse_json_file(R"({"model_max_length": 1000000000000000019884624838656})", "c.json");
  EXPECT_DOUBLE_EQ(file.root->at("model_max_length").get<double>(), 1e30);
}

}  // namespace
}  // namespace specstep
