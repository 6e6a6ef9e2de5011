// Parsing, output, and the map from errors to exit codes.
#include "tools/cli.h"

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "model/base/formatted.h"
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
  command.add_option("--seed", options.seed, "seed of everything random")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()));
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
  if (fs::exists(text, failed) && !fs::is_directory(text, failed)) return text;
  const fs::path named = library.root() / folder / (text + ".yaml");
  if (!text.empty() && fs::exists(named, failed)) return named;
  throw InputError(Issue{
      {text},
      "",
      "no such file",
      formatted("a path, or one of {} in {}", one_of(library.names(folder)), (library.root() / folder).string())});
}

namespace {

[[noreturn]] void cannot_write(const std::string& target, int reason) {
  throw Error(formatted("{}: cannot be written: {}", target, std::strerror(reason)));
}

void write_all(int file, const std::string& text, const std::string& target) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t n = ::write(file, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) cannot_write(target, errno);
    done += static_cast<std::size_t>(n);
  }
}

/// An open file that closes itself; closing by hand reports what the kernel kept back.
class File {
 public:
  File(const std::string& path, int flags, const std::string& target)
      : number_(::open(path.c_str(), flags | O_WRONLY | O_CLOEXEC, 0644)), target_(target) {
    if (number_ < 0) cannot_write(target_, errno);
  }
  ~File() {
    if (number_ >= 0) ::close(number_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  void finish(const std::string& text) {
    write_all(number_, text, target_);
    const int number = number_;
    number_ = -1;
    if (::close(number) != 0) cannot_write(target_, errno);
  }

 private:
  int number_;
  std::string target_;
};

/// A result written beside its place; nothing stands there until commit(). Links are followed, modes kept.
class StagedFile {
 public:
  StagedFile(const std::string& target, const std::string& text) : target_(target) {
    std::error_code failed;
    const fs::file_status status = fs::status(target, failed);
    device_ = fs::exists(status) && !fs::is_regular_file(status);
    place_ = device_ ? fs::path(target) : fs::weakly_canonical(target, failed);
    if (place_.empty()) place_ = target;
    if (device_) {  // a device or a pipe cannot be renamed over
      text_ = text;
      return;
    }
    partial_ = formatted("{}.partial.{}", place_.string(), ::getpid());
    File(partial_, O_CREAT | O_TRUNC, target).finish(text);
    if (fs::exists(status)) fs::permissions(partial_, status.permissions(), failed);
  }
  ~StagedFile() {
    if (!partial_.empty()) ::unlink(partial_.c_str());
  }
  StagedFile(const StagedFile&) = delete;
  StagedFile& operator=(const StagedFile&) = delete;
  void commit() {
    if (device_) return File(place_.string(), 0, target_).finish(text_);
    if (::rename(partial_.c_str(), place_.c_str()) != 0) cannot_write(target_, errno);
    partial_.clear();
  }

 private:
  std::string target_, text_;
  fs::path place_;
  std::string partial_;
  bool device_ = false;
};

void check_targets(const CommonOptions& options, const Output& output) {
  Issues issues;
  const auto wrong = [&](const char* option, const char* what, const char* allowed) {
    issues.push_back({{option, 0, 0}, "", what, allowed});
  };
  if (options.csv && !output.csv) wrong("--csv", "this command has no table", "--json");
  if (options.json && options.json->empty()) wrong("--json", "names no file", "a path, or - for standard output");
  if (options.csv && options.csv->empty()) wrong("--csv", "names no file", "a path, or - for standard output");
  if (options.json && options.csv && *options.json == *options.csv)
    wrong("--csv", "--json and --csv name the same place", "two different ones");
  throw_if_any(issues);
}

}  // namespace

void write_output(const std::string& target, const std::string& text) {
  if (target == "-") return write_all(STDOUT_FILENO, text, "standard output");
  StagedFile(target, text).commit();
}

void deliver(const CommonOptions& options, const Output& output) {
  check_targets(options, output);
  const auto file = [](const std::optional<std::string>& target) { return target && *target != "-"; };
  // Files first, all or none: a result that cannot be kept should not look delivered.
  std::optional<StagedFile> json, csv;
  if (file(options.json)) json.emplace(*options.json, output.json().dump(2) + "\n");
  if (file(options.csv)) csv.emplace(*options.csv, output.csv());
  if (json) json->commit();
  if (csv) csv->commit();
  if (options.json == "-") return write_output("-", output.json().dump(2) + "\n");
  if (options.csv == "-") return write_output("-", output.csv());
  if (!options.quiet) write_output("-", output.text);
}

void say(const std::string& text) {
  // A message that cannot be shown must not hide the exit code: nothing to do about a failure here.
  (void)std::fwrite(text.data(), 1, text.size(), stderr);
  (void)std::fputc('\n', stderr);
}

const std::vector<Command>& commands() {
  static const std::vector<Command> rows{add_run, add_plan, add_comm, add_fabric, add_import, add_check, add_list};
  return rows;
}

namespace {

std::string version_text() {
  std::string out = formatted("specstep {}\n", program_version());
  for (const auto& [name, version] : library_versions()) out += formatted("  {:<14} {}\n", name, version);
  return out;
}

int code(Exit exit) { return static_cast<int>(exit); }

/// CLI11 throws for help and version too; those are no faults.
int parse_failure(const CLI::App& app, const CLI::ParseError& e) {
  if (e.get_exit_code() == 0) {
    const int exit = app.exit(e);
    if (!std::cout.flush()) {
      say("specstep: standard output: cannot be written");
      return code(Exit::failed);
    }
    return exit;
  }
  say(formatted("specstep: {}", e.what()));
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
    say(formatted("specstep: {}", e.what()));
    return code(Exit::unsupported);
  } catch (const std::exception& e) {
    say(formatted("specstep: {}", e.what()));
    return code(Exit::failed);
  }
}

}  // namespace specstep
