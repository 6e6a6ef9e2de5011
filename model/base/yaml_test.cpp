// The strict tree: what is accepted, and that each trap is refused at its place.
#include "model/base/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

namespace specstep::yaml {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// The message of the refusal of `text`, or "accepted".
std::string refusal(const std::string& text) {
  try {
    parse(text, "f.yaml");
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Yaml, KeepsOrderPlacesAndQuotes) {
  const Node root = parse("b: 1\na: \"2\"\nlist: [x, {y: z}]\n", "f.yaml");
  ASSERT_EQ(root.entries.size(), 3u);
  EXPECT_EQ(root.entries[0].key, "b");
  EXPECT_FALSE(root.find("b")->quoted);
  EXPECT_TRUE(root.find("a")->quoted);
  EXPECT_EQ(root.find("a")->at, (Location{"f.yaml", 2, 4}));
  EXPECT_EQ(root.find("list")->items[1].find("y")->text, "z");
}

TEST(Yaml, NullWordsAreNothingButQuotedTextIsText) {
  const Node root = parse("a:\nb: ~\nc: null\nd: \"\"\n", "f.yaml");
  EXPECT_EQ(root.find("a")->kind, Node::Kind::null);
  EXPECT_EQ(root.find("b")->kind, Node::Kind::null);
  EXPECT_EQ(root.find("c")->kind, Node::Kind::null);
  EXPECT_EQ(root.find("d")->kind, Node::Kind::scalar);
}

// Public case G03: a key given twice, in either map level, quoted or not; the same name in another map is fine.
TEST(Yaml, DuplicateKeysNameBothPlaces) {
  EXPECT_EQ(refusal("model:\n  layers: 61\nmodel:\n  layers: 2\n"),
            "f.yaml:3:1: model: given twice; first at f.yaml:1:1");
  EXPECT_EQ(refusal("m:\n  layers: 61\n  hidden: 1\n  layers: 2\n"),
            "f.yaml:4:3: layers: given twice; first at f.yaml:2:3");
  EXPECT_EQ(refusal("m:\n  layers: 61\n  \"layers\": 2\n"), "f.yaml:3:3: layers: given twice; first at f.yaml:2:3");
  EXPECT_EQ(refusal("m:\n  layers: 61\ndraft:\n  layers: 1\n"), "accepted");
  EXPECT_EQ(refusal("a: 1\na: 2\na: 3\n"),
            "f.yaml:2:1: a: given twice; first at f.yaml:1:1\nf.yaml:3:1: a: given twice; first at f.yaml:1:1");
}

TEST(Yaml, SurprisesAreRefusedWhereTheyStand) {
  EXPECT_THAT(refusal("a: &x 1\nb: 2\n"), StartsWith("f.yaml:1:4: an anchor"));
  EXPECT_THAT(refusal("a: &x 1\nb: *x\n"), HasSubstr("f.yaml:2:4: an alias"));
  EXPECT_THAT(refusal("a: {b: 1}\n<<: {b: 2}\n"), StartsWith("f.yaml:2:1: <<: a merge key"));
  EXPECT_THAT(refusal("a: !!int 3\n"), HasSubstr("a tag"));
  EXPECT_THAT(refusal("a: 1\n---\nb: 2\n"), HasSubstr("a second document"));
  EXPECT_THAT(refusal("a:\n\tb: 1\n"), StartsWith("f.yaml:2:1: a tab"));
  EXPECT_THAT(refusal("[1, 2]: 3\n"), HasSubstr("as a key"));
  EXPECT_THAT(refusal(""), StartsWith("f.yaml:1:1: the file is empty"));
  EXPECT_THAT(refusal("# only a comment\n"), HasSubstr("the file is empty"));
  EXPECT_THAT(refusal(std::string("a: 1\nb: \0", 9)), StartsWith("f.yaml:2:4: byte 0x00"));
  EXPECT_THAT(refusal("a: \xff\n"), StartsWith("f.yaml:1:4: byte 0xff"));
  for (const char* escape : {"\\_", "\\N"})
    EXPECT_THAT(refusal(std::string("a: \"cud") + escape + "graph\"\n"),
                StartsWith("f.yaml:1:4: has an escape that gives no text"));
  EXPECT_EQ(refusal("a: \"\\u00a0 \\t\"\n"), "accepted");
  EXPECT_THAT(refusal("a: [1, 2\n"), StartsWith("f.yaml:"));
  EXPECT_THAT(refusal("a: [1, 2\n"), HasSubstr("is no YAML: end of sequence flow not found; lines of 'key: value'"));
  EXPECT_THAT(refusal(std::string(100000, '[')), StartsWith("f.yaml:"));
  EXPECT_EQ(refusal("a: 1 # a\ttab in a comment\n"), "accepted");
}

TEST(Yaml, FilesThatAreNotConfigsAreRefusedUnread) {
  EXPECT_THROW(load("/nowhere/x.yaml"), InputError);
  EXPECT_THROW(load("/tmp"), InputError);
  const std::string big = testing::TempDir() + "big.yaml";
  {
    std::ofstream out(big);
    out.seekp(static_cast<std::streamoff>(max_file_bytes));
    out << "x";
  }
  EXPECT_THROW(load(big), InputError);
  std::remove(big.c_str());
}

TEST(Yaml, AByteOrderMarkIsNoPartOfAText) {
  const std::string path = testing::TempDir() + "marked.csv";
  std::ofstream(path) << "\xEF\xBB\xBF"
                      << "bytes,us\n";
  EXPECT_EQ(read_text(path), "bytes,us\n");
  std::remove(path.c_str());
  EXPECT_EQ(parse("\xEF\xBB\xBF"
                  "a: 1\n",
                  "f.yaml")
                .entries.at(0)
                .key,
            "a");
}

TEST(Yaml, MergeReplacesAllButMaps) {
  const Node base = parse("a: 1\nm: {x: 1, y: 2}\nl: [1, 2]\n", "base.yaml");
  const Node over = parse("m: {y: 3, z: 4}\nl: [9]\n", "over.yaml");
  const Node both = merged(base, over);
  EXPECT_EQ(both.find("a")->text, "1");
  EXPECT_EQ(both.find("m")->find("x")->text, "1");
  EXPECT_EQ(both.find("m")->find("y")->text, "3");
  EXPECT_EQ(both.find("m")->find("y")->at.file, "over.yaml");
  EXPECT_EQ(both.find("m")->find("z")->text, "4");
  EXPECT_EQ(both.find("l")->items.size(), 1u);
}

}  // namespace
}  // namespace specstep::yaml
