// The program: everything it does stands in the libraries.
#include <csignal>

#include "tools/cli.h"

int main(int argc, char** argv) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that grows too large is an error of its write
  return specstep::run_program(argc, argv);
}
