#include "sim/engine/preset.h"

#include <algorithm>
#include <cctype>

namespace specstep {

namespace {

std::vector<long> numbers_of(std::string_view text) {
  std::vector<long> out{0};
  for (const char c : text) {
    if (c == '.')
      out.push_back(0);
    else
      out.back() = std::min(out.back() * 10 + (c - '0'), 1'000'000'000L);
  }
  return out;
}

}  // namespace

bool is_version(const std::string& text) {
  char before = '.';
  for (const char c : text) {
    if (c != '.' && !std::isdigit(static_cast<unsigned char>(c))) return false;
    if (c == '.' && before == '.') return false;
    before = c;
  }
  return before != '.';
}

bool is_since(const std::string& version, std::string_view first) {
  if (version.empty()) return true;
  return numbers_of(version) >= numbers_of(first);
}

}  // namespace specstep
