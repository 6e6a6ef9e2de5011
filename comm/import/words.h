// Lines of words with their places, as tools print tables.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace specstep::comm {

struct Word {
  std::string text;
  int column = 1;  // counts from 1
};

struct WordLine {
  int number = 0;
  std::vector<Word> words;
};

/// Every line of the text, blank ones without words; parted at blanks, tabs and carriage returns.
std::vector<WordLine> word_lines(std::string_view text);

}  // namespace specstep::comm
