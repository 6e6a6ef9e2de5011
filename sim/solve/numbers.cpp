#include "sim/solve/numbers.h"

#include <algorithm>

#include "model/base/formatted.h"

namespace specstep::solving {

namespace {

/// Walks a value and calls `on_number(key, value)` for each real number under a wanted key.
template <class F>
class NumberWalk final : public Visitor {
 public:
  NumberWalk(const std::vector<std::string>& wanted, F on_number) : wanted_(wanted), on_number_(std::move(on_number)) {}

  void boolean(bool&) override {}
  void integer(std::int64_t&, const Range&) override {}
  void text(std::string&) override {}
  void choice(std::size_t&, const std::vector<std::string>&) override {}
  void number(double& value, const Range&) override {
    if (inside()) on_number_(key_, value);
  }
  void or_auto(bool& is_auto, const Door& door) override {
    if (!is_auto) door.visit(*this);
  }
  void list(const ListDoor& door) override {
    for (std::size_t i = 0; i < door.size(); ++i) below(formatted("[{}]", i), [&] { door.visit(i, *this); });
  }
  void dict(const DictDoor& door) override {
    for (const std::string& name : door.keys()) below("." + name, [&] { door.visit(name, *this); });
  }
  void map(const MapDoor& door) override {
    Fields fields(*this);
    door.describe(fields);
  }
  void field(std::string_view name, std::string_view, bool, bool present, const Door& door) override {
    if (!present) return;
    // The value of a quantity is set by the quantity's own key.
    const bool value = name == "value";
    below(value ? "" : (key_.empty() ? "" : ".") + std::string(name), [&] { door.visit(*this); });
  }

 private:
  static bool begins(const std::string& text, const std::string& with) {
    return text.compare(0, with.size(), with) == 0;
  }
  bool inside() const {
    return std::any_of(wanted_.begin(), wanted_.end(), [&](const auto& w) { return begins(key_, w); });
  }
  /// Goes on only where a wanted key can still be.
  template <class G>
  void below(const std::string& part, G&& visit) {
    const std::size_t length = key_.size();
    key_ += part;
    const bool leads =
        std::any_of(wanted_.begin(), wanted_.end(), [&](const auto& w) { return begins(key_, w) || begins(w, key_); });
    if (leads) visit();
    key_.resize(length);
  }

  const std::vector<std::string>& wanted_;
  F on_number_;
  std::string key_;
};

template <class F>
void walk(RunConfig& config, const std::vector<std::string>& wanted, F on_number) {
  NumberWalk<F> visitor(wanted, std::move(on_number));
  visit_value(visitor, config, {});
}

}  // namespace

std::vector<ConfigNumber> config_numbers(RunConfig config, const std::vector<std::string>& prefixes) {
  std::vector<ConfigNumber> out;
  walk(config, prefixes, [&](const std::string& key, double value) { out.push_back({key, value}); });
  return out;
}

RunConfig scaled(RunConfig config, const std::string& key, double factor) {
  walk(config, {key}, [&](const std::string& at, double& value) {
    if (at == key) value *= factor;
  });
  return config;
}

}  // namespace specstep::solving
