// The kinds of config file: one row each, with its folder, schema and reader.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/base/config_io.h"

namespace specstep {

struct FileKind {
  std::string name;    // "run", "stack", ...
  std::string folder;  // of configs/
  std::string summary;
  /// Whether a tree looks like this kind: the keys that only it has.
  std::function<bool(const yaml::Node&)> matches;
  /// Reads and validates; the canonical form. Throws InputError with the given issues (those of the tree) and its own.
  std::function<nlohmann::ordered_json(const yaml::Node&, const ReadOptions&, Issues)> read;
  std::function<nlohmann::ordered_json()> schema;
};

/// All kinds, most specific first.
const std::vector<FileKind>& file_kinds();
/// Throws InputError listing the names.
const FileKind& file_kind(const std::string& name);

/// The installed file of this name in any folder ("runs/tiny" or "tiny", runs first), if there is one.
std::optional<std::filesystem::path> installed_file(const std::string& name, const ConfigLibrary& library);

struct CheckedFile {
  std::string kind;
  std::shared_ptr<nlohmann::ordered_json> canonical;
};
/// Finds the kind by the file's keys and validates it. Throws InputError with every fault.
CheckedFile check_file(const std::filesystem::path& path, const ReadOptions& options);

/// The config reference: every key of every kind with its type, limits, default and meaning, as Markdown.
std::string config_reference();

}  // namespace specstep
