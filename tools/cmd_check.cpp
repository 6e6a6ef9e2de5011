// specstep check: is this file valid, and its full form.

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "model/base/formatted.h"
#include "sim/file_kind.h"
#include "tools/cli.h"

namespace specstep {

namespace {
struct CheckCommand {
  CommonOptions common;
  std::string file;
  bool dump = false;
};

void run_check(const CheckCommand& options) {
  const ConfigLibrary library = ConfigLibrary::installed();
  std::error_code failed;
  std::filesystem::path path = options.file;
  if (!std::filesystem::exists(path, failed)) path = installed_file(options.file, library).value_or(path);
  if (std::filesystem::is_directory(path, failed))
    throw InputError(Issue{{options.file}, "", "is a directory", "a file"});
  const CheckedFile checked = check_file(path, read_options(options.common, library));
  const std::string text =
      options.dump ? to_yaml(*checked.canonical) : formatted("{}: a valid {}\n", options.file, checked.kind);
  deliver(options.common, {text, [&] { return *checked.canonical; }, {}});
}
}  // namespace

void add_check(CLI::App& app) {
  auto options = std::make_shared<CheckCommand>();
  CLI::App* command = app.add_subcommand("check", "is this file valid? Prints every fault, or its full form");
  command->add_option("file", options->file, "a config file of any kind, or the name of an installed one")->required();
  command->add_flag("--dump", options->dump, "print the full config, defaults and parts included");
  add_common(*command, options->common, "specstep check my-run.yaml --dump > full.yaml");
  command->callback([options] { run_check(*options); });
}

}  // namespace specstep
