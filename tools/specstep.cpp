// The program: everything it does stands in the libraries.
#include "tools/cli.h"

int main(int argc, char** argv) { return specstep::run_program(argc, argv); }
