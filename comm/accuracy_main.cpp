// Prints the tables of docs/accuracy.md:  comm_accuracy TABLES CONFIGS > docs/accuracy.md
#include <fmt/format.h>

#include "comm/accuracy.h"
#include "comm/accuracy_page.h"

int main(int argc, char** argv) try {
  if (argc != 3) {
    fmt::print(stderr, "usage: comm_accuracy TABLES CONFIGS\n");
    return 2;
  }
  fmt::print("{}", specstep::comm::accuracy_page(argv[1], argv[2]));
  return 0;
} catch (const specstep::Error& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 2;
}
