// Progress of long work, on a terminal.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

namespace specstep {

/// One line of progress that the next one overwrites; silent unless stderr is a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet) : shown_(!quiet && isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() { show(""); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(const std::string& text) const noexcept {
    if (shown_) std::fprintf(stderr, "\r\033[K%s", text.c_str());
  }

 private:
  bool shown_;
};

}  // namespace specstep
