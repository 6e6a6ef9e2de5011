// Text from a user's file, for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace specstep {

/// Whether the text holds a control character but tab and line feed: one would steer the terminal that shows it.
bool steers_terminal(std::string_view text);

/// The text with such characters as \xNN; `one_line`: line feeds too, as \n.
std::string printable(std::string_view text, bool one_line = false);

}  // namespace specstep
