// Every shipped file loads, and every number of a machine has its source.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/config.h"
#include "sim/file_kind.h"

namespace specstep {
namespace {

namespace fs = std::filesystem;
const fs::path root = SPECSTEP_SOURCE_DIR;

std::vector<fs::path> config_files() {
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(root / "configs"))
    if (entry.is_regular_file()) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Configs, EveryFileLoadsAsWhatItsFolderSays) {
  const ConfigLibrary library(root / "configs");
  ReadOptions options;
  options.library = &library;
  ASSERT_GT(config_files().size(), 15u);
  for (const fs::path& file : config_files()) {
    try {
      const CheckedFile checked = check_file(file, options);
      const std::string folder = fs::relative(file, root / "configs").begin()->string();
      EXPECT_EQ(file_kind(checked.kind).folder, folder) << file;
    } catch (const InputError& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

void expect_sources(const nlohmann::ordered_json& value, const std::string& where) {
  if (value.is_object() && value.contains("value") && value.contains("source")) {
    EXPECT_NE(value["source"], "not given") << where;
  }
  if (value.is_structured())
    for (const auto& [key, inner] : value.items()) expect_sources(inner, where + "." + key);
}

TEST(Configs, EveryNumberOfAMachineHasASource) {
  const ConfigLibrary library(root / "configs");
  ReadOptions options;
  options.library = &library;
  for (const fs::path& file : config_files()) {
    const CheckedFile checked = check_file(file, options);
    if (checked.kind == "machine" || checked.kind == "gpu" || checked.kind == "fabric" || checked.kind == "engine" ||
        checked.kind == "cycle" || checked.kind == "skew")
      expect_sources(*checked.canonical, file.string());
  }
}

TEST(Configs, TheReferenceInDocsIsCurrent) {
  std::ifstream in(root / "docs" / "config-reference.md");
  std::stringstream have;
  have << in.rdbuf();
  if (std::getenv("SPECSTEP_UPDATE_GOLDEN")) std::ofstream(root / "docs" / "config-reference.md") << config_reference();
  EXPECT_EQ(have.str(), config_reference()) << "run with SPECSTEP_UPDATE_GOLDEN=1 to rewrite it";
}

TEST(Configs, SchemasDescribeEveryKind) {
  for (const FileKind& kind : file_kinds()) {
    const auto schema = kind.schema();
    EXPECT_FALSE(schema["properties"].empty()) << kind.name;
    if (kind.name != "engine") {  // without a word it is the default engine
      EXPECT_FALSE(schema["required"].empty()) << kind.name;
    }
  }
}

}  // namespace
}  // namespace specstep
