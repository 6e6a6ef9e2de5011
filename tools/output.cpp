// Where results go: checked before the work, written all or none behind it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>

#include "model/base/formatted.h"
#include "model/base/printable.h"
#include "tools/cli.h"

namespace specstep {

namespace fs = std::filesystem;

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

/// What a target names.
struct Place {
  enum class Kind { standard_output, device, file };
  Kind kind = Kind::standard_output;
  fs::path path;      // links followed
  struct stat is {};  // of what is there already
  bool there = false;

  /// By any name: another spelling, a link to it, or a second name of one file.
  bool same(const Place& other) const {
    if (kind != other.kind) return false;
    if (kind == Kind::standard_output || (kind == Kind::file && path == other.path)) return true;
    return there && other.there && is.st_dev == other.is.st_dev && is.st_ino == other.is.st_ino;
  }
  std::string partial() const { return formatted("{}.partial.{}", path.string(), ::getpid()); }
};

/// Where links lead, also those to what is not there yet; a link where they only lead to each other.
fs::path followed(fs::path path) {
  constexpr int most_links = 40;  // as the kernel's
  std::error_code failed;
  for (int links = 0; links < most_links && fs::is_symlink(path, failed); ++links) {
    const fs::path next = fs::read_symlink(path, failed);
    if (failed) break;
    path = path.parent_path() / next;
  }
  return path;
}

Place place_named(const std::string& target) {
  Place out;
  if (target == "-") return out;
  struct stat standard_output {};
  out.there = ::stat(target.c_str(), &out.is) == 0;
  if (out.there && ::fstat(STDOUT_FILENO, &standard_output) == 0 && out.is.st_dev == standard_output.st_dev &&
      out.is.st_ino == standard_output.st_ino)
    return out;  // by another name, as /dev/stdout
  const bool device = out.there && !S_ISREG(out.is.st_mode);
  out.kind = device ? Place::Kind::device : Place::Kind::file;
  out.path = device ? fs::path(target) : one_spelling(followed(target));
  return out;
}

/// Why nothing could be written there, or nothing. Tries it, without touching what is there.
std::string refusal(const Place& place) {
  if (place.kind == Place::Kind::standard_output) return "";
  if (place.there && S_ISDIR(place.is.st_mode)) return "is a directory";
  if (place.there && ::access(place.path.c_str(), W_OK) != 0) return std::strerror(errno);
  if (place.kind == Place::Kind::device) return "";
  std::error_code failed;
  if (fs::is_symlink(place.path, failed)) return std::strerror(ELOOP);
  const int file = ::open(place.partial().c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
  if (file < 0 && place.there) return "no file can be made beside it, to take its place";
  if (file < 0) return std::strerror(errno);
  ::close(file);
  ::unlink(place.partial().c_str());
  return "";
}

/// A file that goes with this.
struct Passing {
  std::string path;  // empty: none
  Passing() = default;
  Passing(const Passing&) = delete;
  Passing& operator=(const Passing&) = delete;
  ~Passing() {
    if (!path.empty()) ::unlink(path.c_str());
  }
};

/// Signals that end the program wait while this lives: what is written beside its place is put there or removed.
class SignalsHeld {
 public:
  SignalsHeld() {
    sigset_t held;
    sigemptyset(&held);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&held, signal);
    ::pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~SignalsHeld() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  sigset_t before_{};
};

/// A result written beside its place; nothing stands there until commit(). Links are followed, modes kept.
class StagedFile {
 public:
  StagedFile(const std::string& target, const std::string& text) : target_(target), place_(place_named(target)) {
    partial_.path = place_.partial();
    File(partial_.path, O_CREAT | O_TRUNC, target).finish(text);
    if (place_.there) (void)::chmod(partial_.path.c_str(), place_.is.st_mode & 07777);
  }
  void commit() {
    if (::rename(partial_.path.c_str(), place_.path.c_str()) != 0) cannot_write(target_, errno);
    partial_.path.clear();
  }

 private:
  std::string target_;
  Place place_;
  Passing partial_;
};

bool to_file(const std::optional<std::string>& target) {
  return target && place_named(*target).kind != Place::Kind::standard_output;
}

std::string json_text(const Output& output) { return output.json().dump(2) + "\n"; }

void write_files(const CommonOptions& options, const Output& output) {
  std::vector<std::pair<std::string, std::function<std::string()>>> devices, files;
  const auto add = [&](const std::optional<std::string>& target, const std::function<std::string()>& text) {
    if (to_file(target)) (place_named(*target).kind == Place::Kind::file ? files : devices).emplace_back(*target, text);
  };
  add(options.json, [&] { return json_text(output); });
  add(options.csv, output.csv);
  add(options.saved_table, output.saved_table);
  add(options.timeline, output.timeline);
  // A device or a pipe may fail half-way, or have no reader, and cannot be taken back: before any file is begun.
  for (const auto& [target, text] : devices) File(place_named(target).path.string(), 0, target).finish(text());
  const SignalsHeld held;
  std::vector<std::unique_ptr<StagedFile>> staged;
  for (const auto& [target, text] : files) staged.push_back(std::make_unique<StagedFile>(target, text()));
  for (const auto& one : staged) one->commit();
}

void show(const CommonOptions& options, const Output& output) {
  const auto print = [](const std::string& text) { write_all(STDOUT_FILENO, text, "standard output"); };
  if (options.json && !to_file(options.json)) return print(json_text(output));
  if (options.csv && !to_file(options.csv)) return print(output.csv());
  if (options.timeline && !to_file(options.timeline)) return print(output.timeline());
  if (!options.quiet) print(printable(output.text));
}

/// An output that was asked for.
struct Asked {
  std::string option, target;
  Place place;
};

std::vector<Asked> asked_outputs(const CommonOptions& options) {
  std::vector<Asked> out;
  const auto add = [&](const char* option, const std::optional<std::string>& target) {
    if (target) out.push_back({option, *target, place_named(*target)});
  };
  add("--json", options.json);
  add("--csv", options.csv);
  add("--save-table", options.saved_table);
  add("--timeline", options.timeline);
  return out;
}

/// Outputs that are an input or another output.
Issues conflicts(const std::vector<Asked>& outputs, const std::vector<fs::path>& inputs) {
  Issues issues;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Asked& asked = outputs[i];
    if (asked.target.empty()) continue;
    const auto report = [&](std::string what, const char* allowed) {
      issues.push_back({{asked.option, 0, 0}, "", std::move(what), allowed});
    };
    for (std::size_t k = 0; k < i; ++k)
      if (asked.place.same(outputs[k].place))
        report(formatted("{} and {} name the same place", outputs[k].option, asked.option), "two different ones");
    const bool read = std::any_of(inputs.begin(), inputs.end(),
                                  [&](const fs::path& input) { return asked.place.same(place_named(input.string())); });
    if (read && asked.place.kind == Place::Kind::file)
      report(formatted("'{}' is an input: this command reads it", asked.target), "another file");
  }
  return issues;
}

}  // namespace

void check_outputs(const CommonOptions& options) {
  const std::vector<Asked> outputs = asked_outputs(options);
  Issues issues = conflicts(outputs, *options.inputs);
  for (const Asked& asked : outputs) {
    const Location at{asked.option, 0, 0};
    if (asked.target.empty()) {
      issues.push_back({at, "", "names no file", "a path, or - for standard output"});
    } else if (const std::string why = refusal(asked.place); !why.empty()) {
      issues.push_back({at, "", formatted("'{}' cannot be written: {}", asked.target, why),
                        "a file in a folder that can be written, or - for standard output"});
    }
  }
  throw_if_any(issues);
}

void deliver(const CommonOptions& options, const Output& output) {
  if (options.csv && !output.csv) throw InputError(Issue{{"--csv", 0, 0}, "", "this command has no table", "--json"});
  throw_if_any(conflicts(asked_outputs(options), *options.inputs));
  try {
    write_files(options, output);
  } catch (const Error&) {
    show(options, output);  // what took so long to find is not lost with the file
    throw;
  }
  show(options, output);
}

}  // namespace specstep
