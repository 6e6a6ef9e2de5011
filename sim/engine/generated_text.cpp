#include "sim/engine/generated_text.h"

#include <algorithm>

#include "model/base/config_io.h"

namespace specstep {

std::string digest_of(const Tokens& tokens) {
  std::string text;
  for (const auto& sequence : tokens) {
    for (const std::int32_t token : sequence) text += std::to_string(token) + ' ';
    text += '\n';
  }
  return text_hash(text);
}

std::int64_t first_difference(const Tokens& a, const Tokens& b) {
  std::int64_t earliest = -1;
  for (std::size_t s = 0; s < std::min(a.size(), b.size()); ++s) {
    const auto [x, y] = std::mismatch(a[s].begin(), a[s].end(), b[s].begin(), b[s].end());
    if (x == a[s].end() && y == b[s].end()) continue;
    const std::int64_t at = x - a[s].begin();
    if (earliest < 0 || at < earliest) earliest = at;
  }
  return earliest;
}

}  // namespace specstep
