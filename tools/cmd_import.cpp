// specstep import: files of other tools to files of this one.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "model/import/hf_config.h"
#include "tools/cli.h"

namespace specstep {

namespace {

struct ImportCommand {
  CommonOptions common;
  std::string kind, file, name;
  bool strict = false;
};

/// What came out of a file: our form of it, and what there is to say about it.
struct Imported {
  nlohmann::ordered_json value;
  std::vector<ImportNote> notes;
};

Imported hf_config(const ImportCommand& options) {
  HfImport imported = import_hf_config(std::filesystem::path(options.file), options.name);
  return {std::visit([](const auto& spec) -> nlohmann::ordered_json { return dump_config(spec); }, imported.spec),
          std::move(imported.notes)};
}

/// A kind of file that can be imported: one row each.
struct ImportKind {
  std::string name;
  std::string summary;
  std::function<Imported(const ImportCommand&)> read;
};
const std::vector<ImportKind>& import_kinds() {
  static const std::vector<ImportKind> rows{
      {"hf-config", "config.json of a Hugging Face model, to a stack or a draft", hf_config},
  };
  return rows;
}

const ImportKind& import_kind(const std::string& name) {
  std::vector<std::string> names;
  for (const ImportKind& kind : import_kinds()) {
    if (kind.name == name) return kind;
    names.push_back(kind.name);
  }
  throw InputError(Issue{{name}, "", "no such kind of import" + did_you_mean(name, names), one_of(names)});
}

void import_file(const ImportCommand& options) {
  const Imported imported = import_kind(options.kind).read(options);
  Issues open;
  std::string remarks;
  for (const ImportNote& note : imported.notes) {
    say(fmt::format("{}: {}", name_of(note.kind), note.text.text()));
    if (note.kind == ImportNote::Kind::ignored) continue;
    open.push_back(note.text);
    // What the reader of the result must know goes with it; the place in the source does not.
    Issue remark = note.text;
    remark.at = {};
    remarks += fmt::format("# {}: {}\n", name_of(note.kind), remark.text());
  }
  if (options.strict) throw_if_any(open);
  deliver(options.common, {remarks + to_yaml(imported.value), [&] { return imported.value; }, {}});
}

std::string kinds_text() {
  std::string out;
  for (const ImportKind& kind : import_kinds()) out += fmt::format("{}: {}", kind.name, kind.summary);
  return out;
}

}  // namespace

void add_import(CLI::App& app) {
  auto options = std::make_shared<ImportCommand>();
  CLI::App* command = app.add_subcommand("import", "files of other tools to files of this one, on standard output");
  command->add_option("kind", options->kind, kinds_text())->required();
  command->add_option("file", options->file, "the file to read")->required();
  command->add_option("--name", options->name, "name of the result; otherwise that of the file");
  command->add_flag("--strict", options->strict, "refuse what the file leaves open, instead of saying what is assumed");
  add_common(*command, options->common, "specstep import hf-config config.json --name my-model > my-model.yaml");
  command->callback([options] { import_file(*options); });
}

}  // namespace specstep
