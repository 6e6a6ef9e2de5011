// Hugging Face config.json to a stack, or to a draft for the heads of EAGLE-3.
#pragma once

#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "model/draft.h"
#include "model/import/hf_fields.h"

namespace specstep {

struct HfImport {
  std::variant<StackSpec, DraftSpec> spec;
  std::vector<ImportNote> notes;  // what the file leaves open, and what a stack cannot say
};

/// Reads a config.json. `name` is that of the result; empty: the file's own (_name_or_path), else that of the
/// file or, for a config.json, of its folder, else its architecture.
/// A head of EAGLE-3 (an Eagle3 architecture, eagle_config or draft_vocab_size) becomes a draft, everything else a
/// stack. Throws InputError with every fault: what is missing, has the wrong type, or cannot be said by a stack (layers
/// that differ in width, state-space layers, feed-forward parts without a gate, formats it does not know), naming the
/// field.
HfImport import_hf_config(const std::filesystem::path& file, const std::string& name = "");
HfImport import_hf_config(const JsonFile& file, const std::string& name = "");

}  // namespace specstep
