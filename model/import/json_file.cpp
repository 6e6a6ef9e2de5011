// nlohmann's parser with a builder of our own: the library's keeps the last of two equal keys and no places.
#include "model/import/json_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "model/base/formatted.h"
#include "model/base/yaml.h"

namespace specstep {

namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t deepest = 64;

/// Walks the text and tells how much of it the parser has taken.
class Counting {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Counting(const char* at, std::size_t* taken) : at_(at), taken_(taken) {}
  reference operator*() const { return *at_; }
  Counting& operator++() {
    ++at_;
    ++*taken_;
    return *this;
  }
  Counting operator++(int) {
    Counting before = *this;
    ++*this;
    return before;
  }
  bool operator==(const Counting& other) const { return at_ == other.at_; }

 private:
  const char* at_;
  std::size_t* taken_;
};

class Builder {
 public:
  Builder(std::string_view text, const std::string& name, const std::size_t& taken)
      : text_(text), name_(name), taken_(taken) {
    for (std::size_t i = 0; i < text.size(); ++i)
      if (text[i] == '\n') line_ends_.push_back(i);
  }

  bool null() { return value(nullptr); }
  bool boolean(bool v) { return value(v); }
  bool number_integer(Json::number_integer_t v) { return value(v); }
  bool number_unsigned(Json::number_unsigned_t v) { return value(v); }
  bool number_float(Json::number_float_t v, const std::string&) { return value(v); }
  bool string(std::string& v) { return value(std::move(v)); }
  bool binary(Json::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& v) {
    const Location place = location(start_of_string());
    const std::string path = path_ + (path_.empty() ? "" : ".") + v;
    const auto [first, added] = places_.emplace(path, place);
    if (!added)
      issues_.push_back(
          {place, path, formatted("a second time (the first is at line {})", first->second.line), "once"});
    key_ = std::move(v);
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& e) {
    std::string what = e.what();
    if (const std::size_t at = what.find("syntax error"); at != std::string::npos)
      what = what.substr(at);
    else if (const std::size_t end = what.find("] "); end != std::string::npos)
      what = what.substr(end + 2);
    issues_.push_back({location(position == 0 ? 0 : position - 1), "", what, "one JSON object"});
    return false;
  }

  Json root;
  const Issues& issues() const { return issues_; }
  std::map<std::string, Location> take_places() { return std::move(places_); }

 private:
  template <class V>
  bool value(V&& v) {
    place(Json(std::forward<V>(v)));
    return true;
  }

  Json& place(Json&& v) {
    if (open_.empty()) return root = std::move(v);
    Json& parent = *open_.back();
    if (parent.is_array()) return parent.emplace_back(std::move(v));
    // Keys given twice are faults by now; looking each one up again would make long files slow.
    auto& members = parent.get_ref<Json::object_t&>();
    members.emplace_back(key_, std::move(v));
    return members.back().second;
  }

  bool open(Json&& empty) {
    if (open_.size() == deepest) {
      issues_.push_back({location(taken_), path_, formatted("nested deeper than {}", deepest), "a config.json"});
      return false;
    }
    paths_.push_back(path_);
    if (!open_.empty() && open_.back()->is_object()) path_ += (path_.empty() ? "" : ".") + key_;
    open_.push_back(&place(std::move(empty)));
    return true;
  }

  bool close() {
    open_.pop_back();
    path_ = std::move(paths_.back());
    paths_.pop_back();
    return true;
  }

  /// Where the string that has just been read begins: its opening quote has no backslash before it.
  std::size_t start_of_string() const {
    std::size_t at = taken_ >= 2 ? taken_ - 2 : 0;
    for (; at > 0; --at) {
      if (text_[at] != '"') continue;
      std::size_t slashes = 0;
      while (slashes < at && text_[at - 1 - slashes] == '\\') ++slashes;
      if (slashes % 2 == 0) break;
    }
    return at;
  }

  Location location(std::size_t offset) const {
    const std::size_t at = std::min(offset, text_.size());
    const auto next = std::lower_bound(line_ends_.begin(), line_ends_.end(), at);
    const std::size_t column = next == line_ends_.begin() ? at + 1 : at - *std::prev(next);
    return {name_, static_cast<int>(next - line_ends_.begin()) + 1, static_cast<int>(column)};
  }

  std::string_view text_;
  const std::string& name_;
  const std::size_t& taken_;
  std::vector<std::size_t> line_ends_;
  std::vector<Json*> open_;
  std::vector<std::string> paths_;
  std::string path_, key_;
  std::map<std::string, Location> places_;
  Issues issues_;
};

}  // namespace

Location JsonFile::at(const std::string& path) const {
  for (std::string p = path; !p.empty();) {
    if (const auto found = places.find(p); found != places.end()) return found->second;
    const std::size_t dot = p.rfind('.');
    p = dot == std::string::npos ? "" : p.substr(0, dot);
  }
  return {name};
}

JsonFile parse_json_file(std::string_view text, const std::string& name) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::size_t taken = 0;
  Builder builder(text, name, taken);
  const bool whole =
      Json::sax_parse(Counting(text.data(), &taken), Counting(text.data() + text.size(), &taken), &builder);
  throw_if_any(builder.issues());
  if (!whole) throw InputError(Issue{{name, 1, 1}, "", "is no JSON", "one JSON object"});
  if (!builder.root.is_object())
    throw InputError(Issue{{name, 1, 1}, "", formatted("is {}", builder.root.type_name()), "an object"});
  return {name, std::make_shared<const Json>(std::move(builder.root)), builder.take_places()};
}

JsonFile load_json_file(const std::filesystem::path& path) {
  return parse_json_file(yaml::read_text(path), path.string());
}

}  // namespace specstep
