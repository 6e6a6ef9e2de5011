// What the commands share: options, output, and how a config is found.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/base/config_io.h"

namespace CLI {
class App;
}

namespace specstep {

/// Options that every command takes.
struct CommonOptions {
  std::vector<std::string> sets;
  std::optional<std::string> json;
  std::optional<std::string> csv;
  bool quiet = false;
  std::int64_t seed = 0;
};

/// Adds them to a sub-command, with an example in its help.
void add_common(CLI::App& command, CommonOptions& options, const std::string& example);

/// Overrides parsed, library found.
ReadOptions read_options(const CommonOptions& options, const ConfigLibrary& library);

/// A config named on the command line: a file, else the name of an installed config of `folder`.
/// Throws InputError that lists the names.
std::filesystem::path config_path(const std::string& text, const std::string& folder, const ConfigLibrary& library);

/// Writes `text` to a file, or to stdout for "-". Written beside and renamed, so that no half a file is left.
/// Throws Error with the reason.
void write_output(const std::string& target, const std::string& text);

/// What a command found: its text for people, and machine forms made only when asked for.
struct Output {
  std::string text;
  std::function<nlohmann::ordered_json()> json;
  std::function<std::string()> csv;  // may be empty: the command has no table
};

/// Prints and writes as the options ask: `--json -` or `--csv -` replace the text; --quiet drops it.
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
void add_import(CLI::App& app);
void add_check(CLI::App& app);
void add_import(CLI::App& app);
void add_list(CLI::App& app);

/// Runs the program: parses, dispatches, maps errors to exit codes (see error.h).
int run_program(int argc, const char* const* argv);

}  // namespace specstep
