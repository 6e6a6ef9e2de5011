// The fields of a Hugging Face config.json, whatever a model family calls them and however deep it nests them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/import/json_file.h"

namespace specstep {

/// Something an import has to tell. conflict: two values, one used. assumed: not in the file, a stated value used.
/// approximate: the stack cannot say it exactly. ignored: not read.
struct ImportNote {
  enum class Kind { conflict, assumed, approximate, ignored };
  Kind kind{};
  Issue text;
};
std::string_view name_of(ImportNote::Kind kind);

/// Looks fields up. A text model may be nested (text_config, thinker_config.text_config, ...): the innermost value that
/// is not null wins, and an outer one that differs is reported as a conflict. Siblings such as vision_config are never
/// looked into. Several names stand for one field in the order given.
class HfFields {
 public:
  using Names = std::initializer_list<const char*>;
  using Json = nlohmann::ordered_json;

  explicit HfFields(const JsonFile& file);

  /// The value of the first of these names that has one which is not null, or nullptr.
  const Json* find(Names names);
  /// Whole number of at least `min`. A list stands for it only when it has an entry for each of `layers` and all are
  /// equal; anything else is a fault.
  std::optional<std::int64_t> integer(Names names, std::int64_t min = 1);
  /// The same, and a fault when it is missing.
  std::int64_t required(Names names, const char* what);
  std::optional<bool> boolean(Names names);
  std::optional<std::string> text(Names names);
  /// The list of a name, or an empty one.
  std::vector<Json> list(Names names);
  /// Layers of the model, once known: lists are held against it.
  void set_layers(std::int64_t layers) { layers_ = layers; }

  /// Says that a key needs no attention, or has had it.
  void known(Names names) {
    for (const char* name : names) seen_.insert(name);
  }
  void note(ImportNote::Kind kind, const std::string& key, std::string what, std::string instead = "");
  void fail(const std::string& key, std::string what, std::string allowed = "");
  /// One note each on sub-configs that were not looked into, and on all keys that nobody asked for.
  void note_leftovers();

  /// model_type, or the first architecture, in lower case.
  const std::string& family() const { return family_; }
  const std::string& architecture() const { return architecture_; }
  const std::vector<ImportNote>& notes() const { return notes_; }
  /// Throws InputError with all faults so far.
  void throw_if_faulty() const { throw_if_any(issues_); }

 private:
  struct Level {
    const Json* values;
    std::string path;  // "text_config", empty for the top
  };
  struct Found {
    const Json* value = nullptr;
    std::string path;
  };
  Found find_placed(Names names);
  std::optional<std::int64_t> uniform(const Json& list, const std::string& key, std::int64_t min);
  std::optional<std::int64_t> whole(const Json& value, const std::string& key, std::int64_t min);
  std::string path_of(const std::string& key) const;

  const JsonFile& file_;
  std::vector<Level> levels_;  // outermost first
  std::string family_, architecture_;
  std::int64_t layers_ = 0;
  std::set<std::string> seen_, conflicts_;
  std::vector<ImportNote> notes_;
  Issues issues_;
};

}  // namespace specstep
