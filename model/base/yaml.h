// A strict YAML tree: every value knows where it stands, and nothing is guessed.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/error.h"

namespace specstep::yaml {

struct Entry;

/// A value of a YAML file. Maps keep their order; keys are unique (checked while parsing).
struct Node {
  enum class Kind { null, scalar, list, map };
  Kind kind = Kind::null;
  std::string text;            // of a scalar
  bool quoted = false;         // a quoted scalar is text and never a number
  std::vector<Node> items;     // of a list
  std::vector<Entry> entries;  // of a map
  Location at;
  std::shared_ptr<const Node> under;  // a scalar of a base file that this map was laid over: a part by name, changed

  /// The value of a key of this map, or nullptr.
  const Node* find(std::string_view key) const;
  Node* find(std::string_view key);
  /// "a map", "a list", "text", ... for messages.
  std::string_view kind_name() const;
};

struct Entry {
  std::string key;
  Location at;  // of the key
  Node value;
};

/// Largest file the strict reader accepts. A config is a few KiB; more is a mistake, and is refused unread.
inline constexpr std::uintmax_t max_file_bytes = std::uintmax_t{4} << 20;

/// Parses one document. Refused, each with its place: duplicate keys, tabs, anchors, aliases, merge keys,
/// tags, keys that are not plain text, a second document, bytes that are not UTF-8 text, an empty file.
/// Faults that leave a tree to read on (duplicates, anchors, ...) go to `faults`, so that the reader can add its own;
/// without `faults`, and for text that is no YAML at all, InputError is thrown with all faults found.
Node parse(std::string_view text, const std::string& file, Issues* faults = nullptr);

/// Reads and parses a file. Throws InputError when it is missing, a directory, too large or no YAML; see parse.
Node load(const std::filesystem::path& path, Issues* faults = nullptr);

/// Whole text of a file of at most `limit` bytes; InputError names the reason otherwise.
std::string read_text(const std::filesystem::path& path, std::uintmax_t limit = max_file_bytes);

/// `over` laid upon `base`: maps merge key by key, anything else is replaced. A map over a scalar keeps the scalar
/// `under` it, so that keys of a part named in the base file can be changed. A number with a source is one thing: a new
/// `value` drops the old `source`.
Node merged(Node base, const Node& over);

/// Drops source and fitted of a quantity map whose value is about to change.
void forget_source(Node& quantity);

}  // namespace specstep::yaml
