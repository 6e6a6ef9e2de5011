// JSON files with places: every key knows its line and column, and nothing is read twice.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "model/base/error.h"

namespace specstep {

/// A JSON document and where each key stands, by dotted path ("text_config.hidden_size"; list elements are not listed).
struct JsonFile {
  std::string name;
  std::shared_ptr<const nlohmann::ordered_json> root;
  std::map<std::string, Location> places;

  /// The place of a path, or of its closest parent.
  Location at(const std::string& path) const;
};

/// Parses one document whose top level is an object. Throws InputError with line and column for text that is no JSON,
/// and for duplicate keys (every one of them) and nesting deeper than 64.
JsonFile parse_json_file(std::string_view text, const std::string& name);
/// Reads at most 4 MiB; see parse_json_file.
JsonFile load_json_file(const std::filesystem::path& path);

}  // namespace specstep
