// One declaration, four uses: reading with every fault, overrides, dump and schema.
#include "model/base/config_io.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "model/base/dtype.h"
#include "model/base/formatted.h"
#include "model/base/quantity.h"

namespace specstep {
namespace {

using testing::HasSubstr;

enum class Colour { red, green };

struct Part {
  std::int64_t size = 0;
};
void describe(Fields& f, Part& p) { f.required("size", p.size, "its size", {.min = 1}); }

struct Thing {
  std::int64_t hidden = 0;
  double rate = 0.5;
  bool enabled = false;
  std::string region = "here";
  Colour colour = Colour::red;
  std::vector<double> rates;
  std::vector<Part> parts;
  std::map<std::string, double> extra;
  std::optional<Part> maybe;
  WeightFormat weights;
  Part part{7};
};

}  // namespace

template <>
struct EnumNames<Colour> {
  static std::vector<std::string> names() { return {"red", "green"}; }
};

namespace {

void describe(Fields& f, Thing& t) {
  f.required("hidden", t.hidden, "width", {.min = 1, .max = 1e6});
  f.optional("rate", t.rate, "a probability", {.min = 0, .max = 1});
  f.optional("enabled", t.enabled, "a switch");
  f.optional("region", t.region, "a name");
  f.optional("colour", t.colour, "a choice");
  f.optional("rates", t.rates, "several", {.min = 0, .max = 1});
  f.optional("parts", t.parts, "a list of maps");
  f.optional("extra", t.extra, "free keys");
  f.optional("maybe", t.maybe, "present or not");
  f.optional("weights", t.weights, "a format");
  f.part("part", t.part, "parts", "a part", false);
}
void check(const Thing& t, Checker& c) {
  if (t.rates.size() > 2) c.fail("rates", "too many", "at most 2");
}

Thing read(const std::string& text, const std::vector<std::string>& sets = {}) {
  ReadOptions options;
  for (const std::string& set : sets) options.overrides.push_back(parse_override(set));
  return read_config<Thing>(yaml::parse(text, "f.yaml"), options);
}

std::string refusal(const std::string& text, const std::vector<std::string>& sets = {}) {
  try {
    read(text, sets);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

// Public case G01, its spellings under our own key. Only the plain spelling and an explicit sign are integers.
TEST(ConfigIo, IntegersHaveOneSpelling) {
  EXPECT_EQ(read("hidden: 7168").hidden, 7168);
  EXPECT_EQ(read("hidden: +7168").hidden, 7168);
  for (const char* bad : {"7.168e3", "1e4", "0123", "0o123", "0x1C00", "7_168", "7168.0", "\"7168\"", "7,168", "7 168",
                          "7168B", "", "~", ".5", "99999999999999999999"})
    EXPECT_THAT(refusal(std::string("hidden: ") + bad), HasSubstr("f.yaml:1:")) << bad;
  EXPECT_EQ(refusal("hidden: 0123"), "f.yaml:1:9: hidden: is '0123'; an integer at least 1 and at most 1000000");
}

// Public case G07 under our own keys.
TEST(ConfigIo, NumbersAreFiniteInRangeAndDecimal) {
  for (const char* good : {"0.45", "4.5e-1", "45e-2", ".45"})
    EXPECT_DOUBLE_EQ(read(std::string("hidden: 1\nrate: ") + good).rate, 0.45) << good;
  EXPECT_DOUBLE_EQ(read("hidden: 1\nrate: 2e-5").rate, 0.00002);
  for (const char* bad : {".nan", "nan", ".inf", "-0.1", "1.5", "12:30", "0,45", "45%", "[0.5]", "1e999"})
    EXPECT_THAT(refusal(std::string("hidden: 1\nrate: ") + bad), HasSubstr("f.yaml:2:7: rate: is")) << bad;
}

// Public case G05: only true and false are switches; text keeps its letters; nothing is not text.
TEST(ConfigIo, NorwayIsACountry) {
  EXPECT_TRUE(read("hidden: 1\nenabled: true").enabled);
  EXPECT_TRUE(read("hidden: 1\nenabled: True").enabled);
  for (const char* bad : {"yes", "on", "y", "no", "off", "n", "1", "0", "\"true\""})
    EXPECT_THAT(refusal(std::string("hidden: 1\nenabled: ") + bad), HasSubstr("true or false")) << bad;
  EXPECT_EQ(read("hidden: 1\nregion: NO").region, "NO");
  EXPECT_EQ(refusal("hidden: 1\ncolour: off"), "f.yaml:2:9: colour: is 'off'; red or green");
  EXPECT_THAT(refusal("hidden: 1\nregion: null"), HasSubstr("region: is nothing"));
}

TEST(ConfigIo, AllFaultsAreReportedTogether) {
  const std::string text = refusal("hidden: 0\nrate: 2\nenabeld: true\nparts: [{size: 1}, {}]\nmaybe: {size: x}\n");
  EXPECT_EQ(
      text,
      "f.yaml:1:9: hidden: is '0'; an integer at least 1 and at most 1000000\n"
      "f.yaml:2:7: rate: is '2'; a number at least 0 and at most 1\n"
      "f.yaml:4:20: parts[1].size: missing; its size\n"
      "f.yaml:5:15: maybe.size: is 'x'; an integer at least 1\n"
      "f.yaml:3:1: enabeld: unknown key, did you mean 'enabled'?; allowed: hidden, rate, enabled, region, colour, "
      "rates, parts, extra, maybe, weights or part");
}

TEST(ConfigIo, ChecksSpeakAtThePlaceOfTheKey) {
  EXPECT_EQ(refusal("hidden: 1\nrates: [0, 1, 0]\n"), "f.yaml:2:8: rates: too many; at most 2");
  EXPECT_EQ(refusal("hidden: 1\nweights: int4\n"),
            "f.yaml:2:10: weights.group: missing; int4 needs scales: the number of "
            "values that share one");
}

TEST(ConfigIo, OverridesGoThroughTheSameValidation) {
  const std::vector<std::string> sets{"hidden=5",     "parts[1].size=9", "parts[2]={size: 3}",
                                      "maybe.size=4", "extra.x=1.5",     "weights.dtype=fp8"};
  const Thing t = read("hidden: 1\nparts: [{size: 1}, {size: 2}]\n", sets);
  EXPECT_EQ(t.hidden, 5);
  EXPECT_EQ(t.parts[1].size, 9);
  EXPECT_EQ(t.parts[2].size, 3);
  EXPECT_EQ(t.maybe->size, 4);
  EXPECT_EQ(read("hidden: 1", {"parts[0].size=7", "parts[1].size=8"}).parts[1].size, 8);  // keys below append as well
  EXPECT_EQ(t.extra.at("x"), 1.5);
  EXPECT_EQ(t.weights.dtype, DType::fp8);
  EXPECT_EQ(refusal("hidden: 1", {"hidden=0"}),
            "--set hidden=0: hidden: is '0'; an integer at least 1 and at most 1000000");
  EXPECT_THAT(refusal("hidden: 1", {"hiden=2"}),
              HasSubstr("--set hiden=2: hiden: unknown key, did you mean 'hidden'?"));
  EXPECT_THAT(refusal("hidden: 1", {"parts[3].size=2"}), HasSubstr("has no element [3]"));
  EXPECT_THAT(refusal("hidden: 1", {"hidden.x=2"}), HasSubstr("hidden.x: sets nothing"));
  for (const char* bad : {"", "=1", "a", "a=", "[0]=1", "a[x]=1", "a[1=2", "a..b=1", "a.=1", "a[-1]=1"})
    EXPECT_THROW(parse_override(bad), InputError) << bad;
}

TEST(ConfigIo, TheLastOverrideCountsAlsoWhereAnEarlierOneReachedInside) {
  const std::string text = "hidden: 1\nparts: [{size: 1}]\n";
  EXPECT_EQ(read(text, {"maybe.size=4", "maybe={size: 5}"}).maybe->size, 5);
  EXPECT_EQ(read(text, {"maybe={size: 5}", "maybe.size=4"}).maybe->size, 4);
  EXPECT_EQ(read(text, {"maybe={size: 5}", "maybe.size=4", "maybe={size: 6}", "maybe.size=7"}).maybe->size, 7);
  EXPECT_EQ(read(text, {"parts[0].size=4", "parts=[{size: 6}]"}).parts[0].size, 6);
  EXPECT_EQ(read(text, {"parts[0].size=4", "parts[0]={size: 6}"}).parts[0].size, 6);
  EXPECT_EQ(read(text, {"weights={dtype: int4, group: 32}", "weights=fp8"}).weights.dtype, DType::fp8);
  EXPECT_EQ(read(text, {"weights.dtype=bf16", "weights=fp8"}).weights.dtype, DType::fp8);
  const auto extra = read(text, {"extra.x=1", "extra={y: 2}"}).extra;
  EXPECT_EQ(extra.size(), 1u);
  EXPECT_EQ(extra.at("y"), 2);
}

TEST(ConfigIo, DumpReadsBackToTheSameValue) {
  const Thing t = read(
      "hidden: 3\nregion: NO\nextra: {b: 2, a: 0.1}\nparts: [{size: 2}]\nmaybe: {size: 8}\n"
      "weights: {dtype: int4, group: 32}\nrates: [0.25, 1]\n");
  const auto canonical = dump_config(t);
  const Thing again = read_config<Thing>(yaml::parse(to_yaml(canonical), "dump.yaml"));
  EXPECT_EQ(dump_config(again), canonical);
  EXPECT_EQ(again.region, "NO");
  EXPECT_DOUBLE_EQ(again.weights.bytes_per_value(), 0.5625);
  EXPECT_EQ(config_hash(canonical), config_hash(dump_config(again)));
  EXPECT_NE(config_hash(canonical), config_hash(dump_config(read("hidden: 4"))));
}

TEST(ConfigIo, SchemaNamesTypesLimitsAndDefaults) {
  const auto schema = schema_of<Thing>();
  EXPECT_EQ(schema["required"], nlohmann::ordered_json::array({"hidden"}));
  EXPECT_EQ(schema["additionalProperties"], false);
  EXPECT_EQ(schema["properties"]["hidden"]["type"], "integer");
  EXPECT_EQ(schema["properties"]["rate"]["maximum"], 1);
  EXPECT_EQ(schema["properties"]["rate"]["default"], 0.5);
  EXPECT_EQ(schema["properties"]["colour"]["enum"], nlohmann::ordered_json::array({"red", "green"}));
  EXPECT_EQ(schema["properties"]["parts"]["items"]["properties"]["size"]["minimum"], 1);
  EXPECT_EQ(schema["properties"]["weights"]["anyOf"].size(), 2u);
}

TEST(ConfigIo, ALongListOfFaultsIsCutAndCounted) {
  std::string text = "hidden: 1\n";
  for (int i = 0; i < 60; ++i) text += formatted("key{}: 1\n", i);
  try {
    read_config<Thing>(yaml::parse(text, "f.yaml"));
    ADD_FAILURE() << "accepted";
  } catch (const InputError& e) {
    const std::string shown = e.what();
    EXPECT_EQ(e.issues().size(), 60U);
    EXPECT_EQ(std::count(shown.begin(), shown.end(), '\n'), 50);
    EXPECT_THAT(shown, testing::EndsWith("\nand 10 more"));
    EXPECT_THAT(shown, HasSubstr("f.yaml:51:1: key49: unknown key"));
  }
}

class Files : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(testing::TempDir()) / testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_ / "parts");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  std::filesystem::path write(const std::string& name, const std::string& text) {
    std::ofstream(root_ / name) << text;
    return root_ / name;
  }
  std::string refusal(const std::string& name) {
    try {
      load(name);
    } catch (const InputError& e) {
      return e.what();
    }
    return "accepted";
  }
  Thing load(const std::string& name) {
    const ConfigLibrary library(root_);
    ReadOptions options;
    options.library = &library;
    return load_config<Thing>(root_ / name, options);
  }
  std::filesystem::path root_;
};

TEST_F(Files, PartsComeInlineByPathOrByName) {
  write("parts/big.yaml", "size: 100\n");
  write("inline.yaml", "hidden: 1\npart: {size: 3}\n");
  write("path.yaml", "hidden: 1\npart: parts/big.yaml\n");
  write("name.yaml", "hidden: 1\npart: big\n");
  EXPECT_EQ(load("inline.yaml").part.size, 3);
  EXPECT_EQ(load("path.yaml").part.size, 100);
  EXPECT_EQ(load("name.yaml").part.size, 100);
}

TEST_F(Files, AMissingPartListsWhatExists) {
  write("parts/big.yaml", "size: 100\n");
  write("name.yaml", "hidden: 1\npart: bug\n");
  write("path.yaml", "hidden: 1\npart: ./nope.yaml\n");
  EXPECT_THAT(refusal("name.yaml"),
              HasSubstr("name.yaml:2:7: part: no 'bug' in configs/parts, did you mean 'big'?; big"));
  EXPECT_THAT(refusal("path.yaml"), HasSubstr("path.yaml:2:7: part: no such file './nope.yaml'"));
}

TEST_F(Files, FaultsInAPartNameThePartsFile) {
  write("parts/bad.yaml", "size: -1\n");
  write("x.yaml", "hidden: 0\npart: bad\n");
  EXPECT_THAT(refusal("x.yaml"), HasSubstr("bad.yaml:1:7: part.size: is '-1'"));
  EXPECT_THAT(refusal("x.yaml"), HasSubstr("x.yaml:1:9: hidden: is '0'"));
}

// A pipe has no folder and no canonical name: what it includes is relative to the working directory.
TEST_F(Files, TextFromAPipeIsReadLikeAFile) {
  write("base.yaml", "hidden: 7\n");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string text = "base: " + std::filesystem::relative(root_ / "base.yaml").string() + "\nrate: 0.25\n";
  ASSERT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(ends[1]);
  const Thing thing = load(formatted("/dev/fd/{}", ends[0]));
  close(ends[0]);
  EXPECT_EQ(thing.hidden, 7);
  EXPECT_EQ(thing.rate, 0.25);
}

TEST_F(Files, BaseChainsMergeAndCyclesAreRefused) {
  write("base.yaml", "hidden: 1\nrate: 0.25\n");
  write("over.yaml", "base: base.yaml\nhidden: 2\n");
  write("a.yaml", "base: b.yaml\nhidden: 1\n");
  write("b.yaml", "base: a.yaml\n");
  write("lost.yaml", "base: nowhere.yaml\n");
  EXPECT_EQ(load("over.yaml").hidden, 2);
  EXPECT_EQ(load("over.yaml").rate, 0.25);
  EXPECT_THAT(refusal("a.yaml"), HasSubstr("leads back to itself"));
  EXPECT_THAT(refusal("lost.yaml"), HasSubstr("lost.yaml:1:7: base: no such file"));
}

}  // namespace
}  // namespace specstep
