// For tests: inputs of testdata, as they are or with a change.
#pragma once

#include "model/import/hf_config.h"

namespace specstep {

inline const std::filesystem::path testdata =
    std::filesystem::path(SPECSTEP_SOURCE_DIR) / "model" / "import" / "testdata";

inline HfImport import_file(const std::string& name) { return import_hf_config(testdata / (name + ".json")); }
inline StackSpec import_stack(const std::string& name) { return std::get<StackSpec>(import_file(name).spec); }
inline DraftSpec import_draft(const std::string& name) { return std::get<DraftSpec>(import_file(name).spec); }

/// A file of testdata with fields laid over it (null removes one).
HfImport import_changed(const std::string& name, const std::string& patch);
inline StackSpec changed_stack(const std::string& name, const std::string& patch) {
  return std::get<StackSpec>(import_changed(name, patch).spec);
}

/// The text of a refusal, or "accepted".
template <class Import>
std::string refusal_of(Import import) {
  try {
    import();
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

/// All notes of a kind, one line each.
inline std::string notes_of(const HfImport& imported, ImportNote::Kind kind) {
  std::string out;
  for (const ImportNote& note : imported.notes)
    if (note.kind == kind) out += note.text.text() + "\n";
  return out;
}

}  // namespace specstep
