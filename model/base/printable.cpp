#include "model/base/printable.h"

#include "model/base/formatted.h"

namespace specstep {

namespace {

/// Bytes of the control character at `i` of UTF-8 text, 0 for any other: U+0000 to U+001F, U+007F, U+0080 to U+009F.
std::size_t control_at(std::string_view text, std::size_t i) {
  const auto byte = [&](std::size_t k) { return static_cast<unsigned char>(text[k]); };
  if (byte(i) < 0x20 || byte(i) == 0x7f) return text[i] == '\n' || text[i] == '\t' ? 0 : 1;
  return byte(i) == 0xC2 && i + 1 < text.size() && byte(i + 1) >= 0x80 && byte(i + 1) < 0xA0 ? 2 : 0;
}

}  // namespace

bool steers_terminal(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i)
    if (control_at(text, i) > 0) return true;
  return false;
}

std::string printable(std::string_view text, bool one_line) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t control = control_at(text, i);
    for (std::size_t k = 0; k < control; ++k) out += formatted("\\x{:02x}", static_cast<unsigned char>(text[i + k]));
    if (control > 0)
      i += control - 1;
    else if (one_line && text[i] == '\n')
      out += "\\n";
    else
      out += text[i];
  }
  return out;
}

}  // namespace specstep
