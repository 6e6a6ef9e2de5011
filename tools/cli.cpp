// Parsing, and the map from errors to exit codes.
#include "tools/cli.h"

#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "model/base/formatted.h"
#include "model/base/number.h"
#include "model/base/printable.h"
#include "sim/environment.h"
#include "sim/file_kind.h"
#include "sim/study_config.h"

namespace specstep {

namespace fs = std::filesystem;

namespace {

/// An empty value would read as if the option were not there. Those that say so better themselves are left alone.
void refuse_empty_options(const CLI::App& command) {
  Issues issues;
  for (const CLI::Option* option : command.get_options()) {
    const std::string name = option->get_name();
    if (name == "--json" || name == "--csv" || name == "--save-table" || name == "--timeline" || name == "--set")
      continue;
    for (const std::string& value : option->results())
      if (value.empty())
        issues.push_back(
            {{name, 0, 0}, "", "is empty", option->get_required() ? "a value" : "a value, or leave it out"});
  }
  throw_if_any(issues);
}

}  // namespace

void add_output(CLI::App& command, CommonOptions& options, const std::string& example) {
  command.add_option("--json", options.json, "write JSON to this file; - for stdout instead of the text");
  command.add_option("--csv", options.csv, "write CSV to this file; - for stdout instead of the text");
  command.add_flag("--quiet", options.quiet, "print no text");
  command.footer("Example:\n  " + example);
  command.parse_complete_callback([&command, &options] {
    refuse_empty_options(command);
    check_outputs(options);
  });
}

void add_common(CLI::App& command, CommonOptions& options, const std::string& example) {
  command.add_option("--set", options.sets, "override one key, as in workload.batch=8 (repeatable)")
      ->take_all()
      ->expected(1);
  add_output(command, options, example);
}

CLI::Option* bounded(CLI::Option* option, double min, double max) {
  const auto refusal = [=](const std::string& text) -> std::string {
    const Range range{.min = min, .max = max};
    double value = 0;
    if (is_number(text, false) && parse_number(text, value) && std::isfinite(value) && range.holds(value)) return "";
    return formatted("is '{}'; a number {}", text, range.text());
  };
  return option->check(refusal, formatted("in [{} - {}]", min, max));
}

ReadOptions read_options(const CommonOptions& options, const ConfigLibrary& library) {
  ReadOptions out;
  out.library = &library;
  out.files = options.inputs.get();
  Issues issues;
  for (const std::string& set : options.sets) {
    try {
      out.overrides.push_back(parse_override(set));
    } catch (const InputError& e) {
      issues.insert(issues.end(), e.issues().begin(), e.issues().end());
    }
  }
  throw_if_any(issues);
  return out;
}

fs::path config_path(const std::string& text, const std::string& folder, const ConfigLibrary& library) {
  std::error_code failed;
  if (fs::exists(text, failed) && !fs::is_directory(text, failed)) return text;
  const fs::path named = library.root() / folder / (text + ".yaml");
  if (!text.empty() && fs::exists(named, failed)) return named;
  std::string what = fs::is_directory(text, failed) ? "is a directory" : "no such file";
  if (const auto other = fs::exists(text, failed) || text.empty() ? std::nullopt : installed_file(text, library))
    what = formatted("is an installed config of {}", other->lexically_relative(library.root()).begin()->string());
  else if (what == "no such file")
    what += did_you_mean(text, library.names(folder));
  throw InputError(Issue{{text}, "", what, library.choice(folder)});
}

yaml::Node run_tree(const std::string& text, const CommonOptions& options, const ConfigLibrary& library,
                    Issues& faults) {
  yaml::Node root = load_with_base(config_path(text, "runs", library), &faults, options.inputs.get());
  if (is_study(root)) throw InputError(Issue{root.at, "runs", "is a study, of many runs", "the file of one run"});
  return root;
}

void say(const std::string& text) {
  // A message that cannot be shown must not hide the exit code: nothing to do about a failure here.
  const std::string shown = printable(text);
  (void)std::fwrite(shown.data(), 1, shown.size(), stderr);
  (void)std::fputc('\n', stderr);
}

const std::vector<Command>& commands() {
  static const std::vector<Command> rows{add_run,   add_plan,   add_comm,  add_fabric,
                                         add_solve, add_import, add_check, add_list};
  return rows;
}

namespace {

std::string version_text() {
  std::string out = formatted("specstep {}\n", program_version());
  for (const auto& [name, version] : library_versions()) out += formatted("  {:<14} {}\n", name, version);
  return out;
}

int code(Exit exit) { return static_cast<int>(exit); }

/// What an option that does not exist was meant to be; nothing where no option is close.
std::string meant_option(const CLI::App& app, int argc, const char* const* argv) {
  const auto commands = app.get_subcommands();
  if (commands.empty()) return "";
  std::vector<std::string> names;
  for (const CLI::Option* option : commands.front()->get_options()) names.push_back(option->get_name());
  for (int i = 2; i < argc; ++i) {
    const std::string typed = std::string(argv[i]).substr(0, std::string(argv[i]).find('='));
    if (typed.starts_with("--") && std::find(names.begin(), names.end(), typed) == names.end())
      return did_you_mean(typed, names);
  }
  return "";
}

/// CLI11 throws for help and version too; those are no faults.
int parse_failure(const CLI::App& app, const CLI::ParseError& e, int argc, const char* const* argv) {
  if (e.get_exit_code() == 0) {
    const int exit = app.exit(e);
    if (!std::cout.flush()) {
      say("specstep: standard output: cannot be written");
      return code(Exit::failed);
    }
    return exit;
  }
  say(formatted("specstep: {}{}", e.what(), meant_option(app, argc, argv)));
  say("run 'specstep --help', or 'specstep COMMAND --help' for one command");
  return code(Exit::wrong_input);
}

/// A first word that is no command: CLI11 would only say that one is missing.
void check_command(const CLI::App& app, int argc, const char* const* argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return;
  throw InputError(Issue{{"specstep"}, argv[1], "no such command" + did_you_mean(argv[1], names), one_of(names)});
}

}  // namespace

int run_program(int argc, const char* const* argv) {
  CLI::App app{"What a speculative-decoding verify step costs, and why."};
  app.name("specstep");
  app.require_subcommand(1);
  app.set_version_flag(
      "--version", [] { return version_text(); }, "versions of this program and its libraries");
  app.footer(
      "Example:\n  specstep run seed-study\nExit codes: 0 fine, 1 failed while running, 2 wrong use or file, 77 "
      "not supported here");
  for (const Command& add : commands()) add(app);
  try {
    check_command(app, argc, argv);
    app.parse(argc, argv);
    return code(Exit::ok);
  } catch (const CLI::ParseError& e) {
    return parse_failure(app, e, argc, argv);
  } catch (const InputError& e) {
    say(e.what());
    return code(Exit::wrong_input);
  } catch (const Unsupported& e) {
    say(formatted("specstep: {}", e.what()));
    return code(Exit::unsupported);
  } catch (const std::exception& e) {
    say(formatted("specstep: {}", e.what()));
    return code(Exit::failed);
  }
}

}  // namespace specstep
