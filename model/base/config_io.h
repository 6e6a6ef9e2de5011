// Files to structs and back, through the one declaration of describe.h.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/base/describe.h"
#include "model/base/yaml.h"

namespace specstep {

/// One spelling of a path, absolute and with links followed, for telling files apart, those that are not there yet too.
/// Never fails: what has no canonical form (a pipe) stays as it is.
std::filesystem::path one_spelling(const std::filesystem::path& path);

/// The folder that paths inside a file are relative to: its own, or the working directory for text from a pipe or
/// standard input.
std::filesystem::path folder_of(const std::filesystem::path& file);

/// Where installed configs are looked up by name: `<root>/<folder>/<name>.yaml`.
class ConfigLibrary {
 public:
  explicit ConfigLibrary(std::filesystem::path root) : root_(std::move(root)) {}
  /// The configs of this installation: $SPECSTEP_CONFIGS, else beside the program (installed or build tree).
  static ConfigLibrary installed();

  const std::filesystem::path& root() const { return root_; }
  /// Names in a folder, sorted, without ".yaml"; sub-folders appear as "seed/baseline".
  std::vector<std::string> names(const std::string& folder) const;
  /// What a user may write for a file of a folder: "a path, or one of a, b or c in FOLDER"; where none is installed,
  /// how to say where they are.
  std::string choice(const std::string& folder) const;
  /// A path ("./x.yaml", "a/b.yaml", relative to `from`) or a name of `folder`. InputError at `at` when it is neither.
  std::filesystem::path find(const std::string& text, const std::string& folder, const std::filesystem::path& from,
                             const Location& at, const std::string& key) const;

 private:
  std::filesystem::path root_;
};

/// One `--set path=value`.
struct Override {
  std::vector<std::string> path;  // keys; a list index is "[2]"
  yaml::Node value;
  std::string text;  // as typed
};

/// Parses "a.b[2].c=value". Throws InputError.
/// Of another option than --set, `option` and how its values look.
Override parse_override(const std::string& text, const std::string& option = "--set",
                        const std::string& shape =
                            "write path=value, as in engine.graph.max_batch=128 or "
                            "comm.table[0].backend=pull1");

/// What a read needs beside the file.
struct ReadOptions {
  const ConfigLibrary* library = nullptr;  // needed for files with parts
  std::vector<Override> overrides;
  std::vector<std::filesystem::path>* files =
      nullptr;  // gets every file that is read: the config, its bases, its parts
  /// Why a file cannot be a part from this folder, or nothing: for files that are of another kind.
  std::function<std::string(const yaml::Node& file, std::string_view folder)> refuses_part;
};

/// Loads a file and its `base:` chain (paths relative to the file that names them; cycles refused). `faults` as in
/// yaml::parse; `files` gets the path of each file.
yaml::Node load_with_base(const std::filesystem::path& path, Issues* faults = nullptr,
                          std::vector<std::filesystem::path>* files = nullptr);

namespace detail {
/// Fills a value from a tree; all faults go to `issues`.
void read(const yaml::Node& root, const ReadOptions& options, const Door& door, Sources& sources, Issues& issues);
nlohmann::ordered_json dump(const Door& door);
nlohmann::ordered_json schema(const Door& door);
template <class T>
Door door_of(T& value) {
  return {[&value](Visitor& v) { visit_value(v, value, {}); }};
}
}  // namespace detail

/// Reads a struct from a tree. Throws InputError with every fault found, `issues` (those of the tree) among them;
/// `sources` then tells where each key stood.
template <class T>
T read_config(const yaml::Node& root, const ReadOptions& options = {}, Sources* sources = nullptr, Issues issues = {}) {
  T value{};
  Sources places;
  detail::read(root, options, detail::door_of(value), places, issues);
  throw_if_any(issues);
  if (sources) *sources = std::move(places);
  return value;
}

/// Reads a struct from a file, with its `base:` chain and its parts.
template <class T>
T load_config(const std::filesystem::path& path, const ReadOptions& options = {}, Sources* sources = nullptr) {
  Issues faults;
  const yaml::Node root = load_with_base(path, &faults, options.files);
  return read_config<T>(root, options, sources, std::move(faults));
}

/// The canonical form: every key in declaration order, defaults included. Reading it back gives the same value.
/// A nlohmann::ordered_json; `auto`, so that only callers include that header.
template <class T>
auto dump_config(const T& value) {
  T copy = value;
  return detail::dump(detail::door_of(copy));
}

/// JSON Schema (draft 2020-12) of a struct, for editors; the config reference is printed from it.
template <class T>
auto schema_of() {
  T value{};
  return detail::schema(detail::door_of(value));
}

/// Block YAML of a JSON value, for `check --dump`; strings that YAML could misread are quoted.
std::string to_yaml(const nlohmann::ordered_json& value);

/// 16 hex digits over a text (FNV-1a, 64 bit).
std::string text_hash(std::string_view text);

/// 16 hex digits over the canonical JSON text (FNV-1a, 64 bit): equal configs have equal hashes.
std::string config_hash(const nlohmann::ordered_json& canonical);

}  // namespace specstep
