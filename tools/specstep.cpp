// The program: everything it does stands in the libraries.
#include <csignal>

#include "tools/cli.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is a write error with a message, not a silent death
  return specstep::run_program(argc, argv);
}
