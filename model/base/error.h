// The errors of specstep and the exit codes they map to.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace specstep {

/// Exit codes of the program (contract; CI scripts rely on them).
enum class Exit : int { ok = 0, failed = 1, wrong_input = 2, regression = 3, unsupported = 77 };

/// Something went wrong while running: exit 1.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// This machine or build cannot do what was asked: exit 77.
class Unsupported : public Error {
 public:
  using Error::Error;
};

/// A place in a user's file. Lines and columns count from 1; 0 means unknown.
struct Location {
  std::string file;
  int line = 0;
  int column = 0;
  std::string text() const;
  bool operator==(const Location&) const = default;
};

/// One fault of a user's file: `path:line:column: key: what is wrong; what is allowed`.
struct Issue {
  Location at;
  std::string key;      // dotted path, may be empty
  std::string what;     // what is wrong
  std::string allowed;  // what would be right, may be empty
  std::string text() const;
};
using Issues = std::vector<Issue>;

/// Most faults that one message shows; more of them are counted, since nobody reads on.
inline constexpr std::size_t most_shown_issues = 50;

/// The user's input is wrong: exit 2. Carries every fault found; its text has one line each for the first
/// most_shown_issues.
class InputError : public Error {
 public:
  explicit InputError(Issues issues);
  explicit InputError(Issue issue) : InputError(Issues{std::move(issue)}) {}
  const Issues& issues() const { return issues_; }

 private:
  Issues issues_;
};

/// Throws InputError when there is any issue.
void throw_if_any(const Issues& issues);

/// "a, b or c", for the `allowed` part of a message.
std::string one_of(const std::vector<std::string>& names);

/// The entry of `names` closest to `typed`, as ", did you mean 'x'?", or nothing when none is close.
std::string did_you_mean(const std::string& typed, const std::vector<std::string>& names);

}  // namespace specstep
