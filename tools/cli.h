// What the commands share: options, output, and how a config is found.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/base/config_io.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace specstep {

/// Options that several commands take.
struct CommonOptions {
  std::vector<std::string> sets;
  std::optional<std::string> json;
  std::optional<std::string> csv;
  std::optional<std::string> saved_table;  // --save-table of comm
  std::optional<std::string> timeline;     // --timeline of run
  bool quiet = false;
  /// Every file that the command reads, which no output may be; shared, as reading does not change the options.
  std::shared_ptr<std::vector<std::filesystem::path>> inputs = std::make_shared<std::vector<std::filesystem::path>>();
};

/// Adds those of output to a sub-command, with an example in its help. Targets that cannot be written are refused
/// before the command does anything.
void add_output(CLI::App& command, CommonOptions& options, const std::string& example);
/// Adds all of them: for a command that reads a config.
void add_common(CLI::App& command, CommonOptions& options, const std::string& example);

/// Lets a number option take finite numbers from `min` to `max` only. CLI11's own range lets nan pass.
CLI::Option* bounded(CLI::Option* option, double min, double max);

/// Overrides parsed, library found; files that are read with these options become inputs.
ReadOptions read_options(const CommonOptions& options, const ConfigLibrary& library);

/// A config named on the command line: a file, else the name of an installed config of `folder`.
/// Throws InputError that lists the names, or says of what other kind the installed config of this name is.
std::filesystem::path config_path(const std::string& text, const std::string& folder, const ConfigLibrary& library);

/// What a command found: its text for people, and machine forms made only when asked for.
struct Output {
  std::string text;
  std::function<nlohmann::ordered_json()> json;
  std::function<std::string()> csv;  // may be empty: the command has no table
  std::function<std::string()> saved_table = {};
  std::function<std::string()> timeline = {};
};

/// A run named on the command line, with its `base:` chain, as a tree. Throws InputError for a study.
yaml::Node run_tree(const std::string& text, const CommonOptions& options, const ConfigLibrary& library,
                    Issues& faults);

/// Throws InputError for outputs that cannot be written, that name one place twice, or that are an input. Writes
/// nothing. Called before a command starts, again once it knows its inputs, and before anything is written.
void check_outputs(const CommonOptions& options);

/// Prints and writes as the options ask: `--json -`, `--csv -` or `--timeline -` replace the text; --quiet drops it.
/// Files are written beside their place and renamed, all or none, so that no half a file is left; when that fails the
/// text is printed all the same. Throws Error with the reason.
void deliver(const CommonOptions& options, const Output& output);

/// Message to people: stderr.
void say(const std::string& text);

using Command = std::function<void(CLI::App&)>;
/// The sub-commands, in the order of the help. A command is one file and one row.
const std::vector<Command>& commands();

void add_run(CLI::App& app);
void add_plan(CLI::App& app);
void add_comm(CLI::App& app);
void add_fabric(CLI::App& app);
void add_solve(CLI::App& app);
void add_check(CLI::App& app);
void add_import(CLI::App& app);
void add_list(CLI::App& app);

/// Runs the program: parses, dispatches, maps errors to exit codes (see error.h).
int run_program(int argc, const char* const* argv);

}  // namespace specstep
