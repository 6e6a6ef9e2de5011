// One declaration per struct drives reading, validation, the canonical dump, the JSON Schema and the config reference.
//
// A struct declares its keys once:
//
//   void describe(Fields& f, Workload& w) {
//     f.required("batch", w.batch, "sequences decoded together", {.min = 1});
//     f.optional("prompt_tokens", w.prompt_tokens, "tokens of the prompt", {.min = 1});
//   }
//   void check(const Workload& w, Checker& c);   // optional: what one field alone cannot tell
//
// and each Visitor (reader, dump, schema) walks the same declaration. `describe` and `check` are found by
// argument-dependent lookup and stand in the struct's own .cpp file.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "model/base/error.h"

namespace specstep {

/// What a number may be. Infinity and NaN are always refused.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;  // min itself is not allowed
  /// "at least 1", "above 0 and at most 1", ...
  std::string text() const;
  bool holds(double value) const;
};

/// Where each value of a file was set, by dotted path ("parallel.tensor", "conditional[1]").
using Sources = std::map<std::string, Location>;

/// The place of `key`, or of its closest parent that was written down, or else `fallback`.
const Location& place_of(const std::string& key, const Sources& sources, const Location& fallback);

/// Collects faults that concern several fields. Keys are relative to the struct being checked.
class Checker {
 public:
  Checker(std::string prefix, const Sources& sources, Location fallback, Issues& issues)
      : prefix_(std::move(prefix)), sources_(sources), fallback_(std::move(fallback)), issues_(issues) {}
  /// Reports a fault at the place of `key`, or of its closest parent that was written down.
  void fail(const std::string& key, std::string what, std::string allowed = "");

 private:
  std::string prefix_;
  const Sources& sources_;
  Location fallback_;
  Issues& issues_;
};

class Visitor;

/// How to reach one value. `visit` walks the value with the visitor it is given.
struct Door {
  std::function<void(Visitor&)> visit;
};

/// A list: its length can be read and set, each element visited.
struct ListDoor {
  std::function<std::size_t()> size;
  std::function<void(std::size_t)> resize;
  std::function<void(std::size_t, Visitor&)> visit;
};

/// A map with free keys.
struct DictDoor {
  std::function<std::vector<std::string>()> keys;
  std::function<void(const std::string&, Visitor&)> visit;  // makes the entry when absent
};

class Fields;

/// A struct: its declaration, and shorthands for values that are not maps.
struct MapDoor {
  std::function<void(Fields&)> describe;
  std::function<void(Checker&)> check;  // may be empty
  std::string_view scalar_key;          // a scalar stands for {scalar_key: scalar}
  std::string_view list_key;            // a list stands for {list_key: list}
  std::string_view part;                // a scalar is a path, or a name among the installed configs of this folder
};

/// Walks one value. The reader fills it, the dump and the schema only look.
class Visitor {
 public:
  virtual ~Visitor() = default;
  virtual void boolean(bool& value) = 0;
  virtual void integer(std::int64_t& value, const Range& range) = 0;
  virtual void number(double& value, const Range& range) = 0;
  virtual void text(std::string& value) = 0;
  virtual void choice(std::size_t& value, const std::vector<std::string>& names) = 0;
  virtual void list(const ListDoor& door) = 0;
  virtual void dict(const DictDoor& door) = 0;
  virtual void map(const MapDoor& door) = 0;
  /// A value, or the word `auto`. The door is opened for a value; `automatic` says which of the two it is.
  virtual void or_auto(bool& automatic, const Door& door) = 0;
  /// One key of the map being walked. `present` tells the dump whether there is a value to show.
  virtual void field(std::string_view key, std::string_view doc, bool required, bool present, const Door& door) = 0;
};

/// Specialise for each enum that appears in files: `static std::vector<std::string> names()` in the order of the
/// values.
template <class E>
struct EnumNames;

template <class E>
std::string name_of(E value) {
  return EnumNames<E>::names()[static_cast<std::size_t>(value)];
}

/// Shorthands of a struct, if it has any: specialise with the members that apply.
template <class T>
struct Shorthand {
  static constexpr std::string_view scalar_key = "";
  static constexpr std::string_view list_key = "";
};

/// A value that a rule decides when nobody does: in a file the value, or `auto`.
template <class T>
struct Auto {
  std::optional<T> value;  // nothing: auto
  Auto() = default;
  Auto(T given) : value(std::move(given)) {}
  explicit operator bool() const { return value.has_value(); }
  T value_or(T otherwise) const { return value.value_or(std::move(otherwise)); }
  bool operator==(const Auto&) const = default;
};

template <class T>
concept Checkable = requires(const T& value, Checker& checker) {
  check(value, checker);
};

/// Walks a value of any describable type.
template <class T>
void visit_value(Visitor& visitor, T& value, const Range& range, std::string_view part = "");

/// The keys of one struct; what `describe` receives.
class Fields {
 public:
  explicit Fields(Visitor& visitor) : visitor_(visitor) {}

  template <class T>
  void required(std::string_view key, T& value, std::string_view doc, Range range = {}) {
    add(key, value, doc, true, range, "");
  }
  /// Absent means: the value stays as it is (its default member initialiser).
  template <class T>
  void optional(std::string_view key, T& value, std::string_view doc, Range range = {}) {
    add(key, value, doc, false, range, "");
  }
  /// A part: an inline map, a path relative to this file, or a name among the installed configs of `folder`.
  template <class T>
  void part(std::string_view key, T& value, std::string_view folder, std::string_view doc, bool required = true) {
    add(key, value, doc, required, {}, folder);
  }

 private:
  template <class T>
  void add(std::string_view key, T& value, std::string_view doc, bool required, Range range, std::string_view folder) {
    visitor_.field(key, doc, required, true, {[&](Visitor& v) { visit_value(v, value, range, folder); }});
  }
  template <class T>
  void add(std::string_view key, std::optional<T>& value, std::string_view doc, bool required, Range range,
           std::string_view folder) {
    visitor_.field(key, doc, required, value.has_value(), {[&](Visitor& v) {
                     T inner = value.value_or(T{});
                     visit_value(v, inner, range, folder);
                     value = std::move(inner);
                   }});
  }

  Visitor& visitor_;
};

namespace detail {
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsAuto : std::false_type {};
template <class T>
struct IsAuto<Auto<T>> : std::true_type {};
template <class T>
struct IsDict : std::false_type {};
template <class T>
struct IsDict<std::map<std::string, T>> : std::true_type {};
}  // namespace detail

template <class T>
void visit_value(Visitor& visitor, T& value, const Range& range, std::string_view part) {
  if constexpr (std::is_same_v<T, bool>) {
    visitor.boolean(value);
  } else if constexpr (std::is_integral_v<T>) {
    auto wide = static_cast<std::int64_t>(value);
    Range within = range;
    if constexpr (sizeof(T) < sizeof(wide))
      within.max = std::min(within.max, static_cast<double>(std::numeric_limits<T>::max()));
    visitor.integer(wide, within);
    value = static_cast<T>(wide);
  } else if constexpr (std::is_floating_point_v<T>) {
    visitor.number(value, range);
  } else if constexpr (std::is_same_v<T, std::string>) {
    visitor.text(value);
  } else if constexpr (std::is_enum_v<T>) {
    auto index = static_cast<std::size_t>(value);
    visitor.choice(index, EnumNames<T>::names());
    value = static_cast<T>(index);
  } else if constexpr (detail::IsAuto<T>::value) {
    bool automatic = !value.value;
    auto given = value.value.value_or(typename decltype(value.value)::value_type{});
    visitor.or_auto(automatic, {[&](Visitor& v) { visit_value(v, given, range, part); }});
    value.value = automatic ? std::nullopt : std::optional(given);
  } else if constexpr (detail::IsVector<T>::value) {
    visitor.list({[&] { return value.size(); }, [&](std::size_t n) { value.resize(n); },
                  [&](std::size_t i, Visitor& v) { visit_value(v, value[i], range, part); }});
  } else if constexpr (detail::IsDict<T>::value) {
    visitor.dict({[&] {
                    std::vector<std::string> keys;
                    keys.reserve(value.size());
                    for (const auto& [key, ignored] : value) keys.push_back(key);
                    return keys;
                  },
                  [&](const std::string& key, Visitor& v) { visit_value(v, value[key], range); }});
  } else {
    std::function<void(Checker&)> checks;
    if constexpr (Checkable<T>) checks = [&](Checker& c) { check(value, c); };
    visitor.map(
        {[&](Fields& f) { describe(f, value); }, checks, Shorthand<T>::scalar_key, Shorthand<T>::list_key, part});
  }
}

}  // namespace specstep
