// What reading a file leaves behind: the list of files read, names of changed parts, and faults told where they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "model/base/config_io.h"
#include "model/base/formatted.h"
#include "model/base/printable.h"

namespace specstep {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

struct Wheel {
  std::string name;
  std::int64_t size = 0;
  std::vector<double> spokes;
};
struct Car {
  std::string name;
  Wheel wheel;
};

void describe(Fields& f, Wheel& w) {
  f.optional("name", w.name, "its name");
  f.optional("size", w.size, "its size");
  f.optional("spokes", w.spokes, "lengths");
}
void check(const Wheel& w, Checker& c) {
  if (w.size == 0 && w.spokes.empty()) c.fail("", "is empty", "size or spokes");
}
void describe(Fields& f, Car& t) {
  f.optional("name", t.name, "its name");
  f.part("wheel", t.wheel, "wheels", "a part");
}

/// A folder of its own with a car that starts from another one and has a wheel that does so too.
class Garage : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / formatted("specstep_files_test_{}", getpid());
    fs::create_directories(root_ / "wheels");
    write("old.yaml", "name: old\nwheel: round\n");
    write("car.yaml", "base: old.yaml\nname: car\n");
    write("wheels/round.yaml", "base: rim.yaml\nsize: 3\n");
    write("wheels/rim.yaml", "name: rim\n");
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& file, const std::string& text) const { std::ofstream(root_ / file) << text; }

  Car read(const std::vector<std::string>& sets, std::vector<fs::path>* files = nullptr) const {
    const ConfigLibrary library(root_);
    ReadOptions options;
    options.library = &library;
    options.files = files;
    for (const std::string& set : sets) options.overrides.push_back(parse_override(set));
    return load_config<Car>(root_ / "car.yaml", options);
  }
  std::string refusal(const std::vector<std::string>& sets) const {
    try {
      read(sets);
    } catch (const InputError& e) {
      return e.what();
    }
    return "accepted";
  }
  fs::path root_;
};

TEST_F(Garage, EveryFileThatWasReadIsListed) {
  std::vector<fs::path> files;
  read({}, &files);
  for (fs::path& file : files) file = fs::relative(file, root_);
  EXPECT_THAT(files, UnorderedElementsAre("car.yaml", "old.yaml", "wheels/round.yaml", "wheels/rim.yaml"));
}

TEST_F(Garage, AChangedPartSaysSoInItsName) {
  EXPECT_EQ(read({}).wheel.name, "rim");
  EXPECT_EQ(read({"wheel.size=4"}).wheel.name, "rim (size changed)");
  EXPECT_EQ(read({"wheel.size=4", "wheel.spokes=[1]", "wheel.size=5"}).wheel.name, "rim (size, spokes changed)");
  EXPECT_EQ(read({"wheel.size=4", "wheel.name=square"}).wheel.name, "square");
  EXPECT_EQ(read({"wheel={base: round, size: 9}"}).wheel.name, "rim (size changed)");
  EXPECT_EQ(read({"wheel={name: mine, size: 9}"}).wheel.name, "mine");
  EXPECT_EQ(read({"wheel={name: mine, size: 9}", "wheel.size=8"}).wheel.name, "mine (size changed)");
}

TEST_F(Garage, AFileThatCannotBeAPartIsToldWhereItIsNamed) {
  write("folder-car.yaml", "wheel: ./wheels\n");
  EXPECT_EQ(refusal({formatted("wheel={}", root_.string())}),
            formatted("--set wheel={0}: wheel: '{0}' is a directory; a file", fs::canonical(root_).string()));
}

TEST_F(Garage, AnEmptyListIsAtFaultNotTheMapAroundIt) {
  EXPECT_THAT(refusal({"wheel={spokes: []}"}), HasSubstr("wheel.spokes: is empty; one element or more"));
  EXPECT_THAT(refusal({"wheel={}"}), HasSubstr("wheel: is empty; size or spokes"));
}

TEST_F(Garage, AnIndexBeyondAllNumbersIsNoElement) {
  EXPECT_THAT(refusal({"wheel.spokes[99999999999999999999]=1"}),
              HasSubstr("wheel.spokes: has no element [99999999999999999999]; [0] to [0]; the last one appends"));
}

TEST_F(Garage, NamesAreOneLineWithoutControlCharacters) {
  EXPECT_THAT(refusal({"name=\"a\\e[31mb\""}), HasSubstr("name: is 'a\\x1b[31mb' (quoted text); text without control"));
  EXPECT_THAT(refusal({"name=\"a\\nb\""}), HasSubstr("name: is 'a\\nb' (quoted text); one line"));
}

TEST(Printable, ShowsWhatWouldSteerATerminal) {
  EXPECT_EQ(printable("a\x1b[31m\r\tb\n"), "a\\x1b[31m\\x0d\tb\n");
  EXPECT_EQ(printable("a\nb", true), "a\\nb");
  EXPECT_EQ(printable("\xC2\x9b"
                      "31m \xC3\xA9"),
            "\\xc2\\x9b31m \xC3\xA9");
}

TEST(OneSpelling, OfAFileThatIsNotThere) {
  const fs::path here = fs::canonical(fs::current_path());
  for (const char* text : {"x.json", "./x.json", "./../x.json/../x.json"})
    EXPECT_EQ(one_spelling(text), one_spelling(fs::absolute(text))) << text;
  EXPECT_EQ(one_spelling("./nowhere/../x.json"), here / "x.json");
}

}  // namespace
}  // namespace specstep
