// Parting text into lines and words.
#include "comm/import/words.h"

#include <algorithm>

namespace specstep::comm {

std::vector<WordLine> word_lines(std::string_view text) {
  constexpr std::string_view blanks = " \t\r\f\v";
  std::vector<WordLine> lines;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    WordLine parted{number, {}};
    for (std::size_t i = line.find_first_not_of(blanks); i < line.size(); i = line.find_first_not_of(blanks, i)) {
      const std::size_t stop = std::min(line.find_first_of(blanks, i), line.size());
      parted.words.push_back({std::string(line.substr(i, stop - i)), static_cast<int>(i) + 1});
      i = stop;
    }
    lines.push_back(std::move(parted));
  }
  return lines;
}

}  // namespace specstep::comm
