#include "sim/number_list.h"

#include <algorithm>

#include "model/base/formatted.h"
#include "model/base/number.h"

namespace specstep {

namespace {

constexpr std::size_t most_numbers = 1000;

class Reader {
 public:
  Reader(const std::string& option, const std::string& text, const Range& range)
      : option_(option), text_(text), range_(range) {}

  std::vector<std::int64_t> read() {
    for (const std::string& part : split(text_, ',')) append(split(part, ':'));
    std::sort(numbers_.begin(), numbers_.end());
    numbers_.erase(std::unique(numbers_.begin(), numbers_.end()), numbers_.end());
    return numbers_;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw InputError(Issue{{option_}, text_, what, formatted("as in 1,2,8 or 1:8 or 1:128:x2, {}", range_.text())});
  }

  static std::vector<std::string> split(const std::string& text, char at) {
    std::vector<std::string> parts;
    std::size_t from = 0;
    for (std::size_t to = text.find(at); to != std::string::npos; to = text.find(at, from)) {
      parts.push_back(text.substr(from, to - from));
      from = to + 1;
    }
    parts.push_back(text.substr(from));
    return parts;
  }

  std::int64_t number(const std::string& part) const {
    std::int64_t value = 0;
    if (!is_number(part, true) || !parse_number(part, value)) refuse("'" + part + "' is no whole number");
    return value;
  }

  void add(std::int64_t value) {
    if (!range_.holds(static_cast<double>(value))) refuse(formatted("{} is out of range", value));
    if (numbers_.size() == most_numbers) refuse(formatted("more than {} numbers", most_numbers));
    numbers_.push_back(value);
  }

  void append(const std::vector<std::string>& parts) {
    if (parts.size() == 1) return add(number(parts[0]));
    if (parts.size() > 3) refuse("more than start, end and step");
    const std::int64_t from = number(parts[0]);
    const std::int64_t to = number(parts[1]);
    if (to < from) refuse("the end is below the start");
    const bool factor = parts.size() == 3 && parts[2].starts_with('x');
    const std::int64_t step = parts.size() == 2 ? 1 : number(factor ? parts[2].substr(1) : parts[2]);
    if (factor ? step < 2 || from < 1 : step < 1) refuse("a step that does not grow");
    for (std::int64_t at = from;;) {
      add(at);
      // Written so that nothing overflows.
      if (factor ? at > to / step : at > to - step) return;
      at = factor ? at * step : at + step;
    }
  }

  const std::string& option_;
  const std::string& text_;
  const Range& range_;
  std::vector<std::int64_t> numbers_;
};

}  // namespace

std::vector<std::int64_t> parse_number_list(const std::string& option, const std::string& text, const Range& range) {
  return Reader(option, text, range).read();
}

}  // namespace specstep
