// Parsing, output, and the map from errors to exit codes.
#include "tools/cli.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "sim/environment.h"

namespace specstep {

namespace fs = std::filesystem;

void add_common(CLI::App& command, CommonOptions& options, const std::string& example) {
  command.add_option("--set", options.sets, "override one key, as in workload.batch=8 (repeatable)")
      ->take_all()
      ->expected(1);
  command.add_option("--json", options.json, "write JSON to this file; - for stdout instead of the text");
  command.add_option("--csv", options.csv, "write CSV to this file; - for stdout instead of the text");
  command.add_flag("--quiet", options.quiet, "print no text");
  command.add_option("--seed", options.seed, "seed of everything random");
  command.footer("Example:\n  " + example);
}

ReadOptions read_options(const CommonOptions& options, const ConfigLibrary& library) {
  ReadOptions out;
  out.library = &library;
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
  if (fs::exists(text, failed)) return text;
  const fs::path named = library.root() / folder / (text + ".yaml");
  if (!text.empty() && fs::exists(named, failed)) return named;
  throw InputError(Issue{
      {text},
      "",
      "no such file",
      fmt::format("a path, or one of {} in {}", one_of(library.names(folder)), (library.root() / folder).string())});
}

namespace {

[[noreturn]] void cannot_write(const std::string& target) {
  throw Error(fmt::format("{}: cannot be written: {}", target, std::strerror(errno)));
}

void write_all(int file, const std::string& text, const std::string& target) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(file, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) cannot_write(target);
    done += static_cast<std::size_t>(n);
  }
}

}  // namespace

void write_output(const std::string& target, const std::string& text) {
  if (target == "-") return write_all(STDOUT_FILENO, text, "standard output");
  std::error_code failed;
  const fs::file_status status = fs::status(target, failed);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    // A device or a pipe cannot be renamed over: written directly.
    const int file = ::open(target.c_str(), O_WRONLY | O_CLOEXEC);
    if (file < 0) cannot_write(target);
    const fs::path guard = target;
    try {
      write_all(file, text, target);
    } catch (...) {
      ::close(file);
      throw;
    }
    if (::close(file) != 0) cannot_write(target);
    return;
  }
  const std::string partial = fmt::format("{}.partial.{}", target, ::getpid());
  const int file = ::open(partial.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) cannot_write(target);
  try {
    write_all(file, text, target);
    if (::close(file) != 0) cannot_write(target);
    if (::rename(partial.c_str(), target.c_str()) != 0) cannot_write(target);
  } catch (...) {
    ::unlink(partial.c_str());
    throw;
  }
}

void deliver(const CommonOptions& options, const Output& output) {
  if (!options.csv.empty() && !output.csv)
    throw InputError(Issue{{"--csv"}, "", "this command has no table", "--json"});
  if (options.json == "-" && options.csv == "-")
    throw InputError(Issue{{"--csv"}, "", "--json and --csv both ask for standard output", "a file for one of them"});
  // Files first: a result that cannot be kept should not look delivered.
  if (!options.json.empty() && options.json != "-") write_output(options.json, output.json().dump(2) + "\n");
  if (!options.csv.empty() && options.csv != "-") write_output(options.csv, output.csv());
  if (options.json == "-") return write_output("-", output.json().dump(2) + "\n");
  if (options.csv == "-") return write_output("-", output.csv());
  if (!options.quiet) write_output("-", output.text);
}

void say(const std::string& text) { fmt::print(stderr, "{}\n", text); }

const std::vector<Command>& commands() {
  static const std::vector<Command> rows{add_run, add_plan, add_import, add_check, add_list};
  return rows;
}

namespace {

std::string version_text() {
  std::string out = fmt::format("specstep {}\n", program_version());
  for (const auto& [name, version] : library_versions()) out += fmt::format("  {:<14} {}\n", name, version);
  return out;
}

int code(Exit exit) { return static_cast<int>(exit); }

/// CLI11 throws for help and version too; those are no faults.
int parse_failure(const CLI::App& app, const CLI::ParseError& e) {
  if (e.get_exit_code() == 0) return app.exit(e);
  say(fmt::format("specstep: {}", e.what()));
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
      "Example:\n  specstep run seed-study\nExit codes: 0 fine, 1 failed while running, 2 wrong use or file, 3 "
      "regression, 77 not supported here");
  for (const Command& add : commands()) add(app);
  try {
    check_command(app, argc, argv);
    app.parse(argc, argv);
    return code(Exit::ok);
  } catch (const CLI::ParseError& e) {
    return parse_failure(app, e);
  } catch (const InputError& e) {
    say(e.what());
    return code(Exit::wrong_input);
  } catch (const Unsupported& e) {
    say(fmt::format("specstep: {}", e.what()));
    return code(Exit::unsupported);
  } catch (const std::exception& e) {
    say(fmt::format("specstep: {}", e.what()));
    return code(Exit::failed);
  }
}

}  // namespace specstep
