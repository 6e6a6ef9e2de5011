// The other visitors of a declaration: canonical dump, JSON Schema, block YAML, hash.

#include <cmath>
#include <nlohmann/json.hpp>

#include "model/base/config_io.h"
#include "model/base/formatted.h"

namespace specstep {
namespace {

using Json = nlohmann::ordered_json;

class Dump final : public Visitor {
 public:
  explicit Dump(Json& out) : out_(out) {}
  void boolean(bool& value) override { out_ = value; }
  void integer(std::int64_t& value, const Range&) override { out_ = value; }
  void number(double& value, const Range&) override {
    // An integral number prints without ".0", as a person writes it; both read back the same.
    if (value == std::floor(value) && std::abs(value) < 1e15)
      out_ = static_cast<std::int64_t>(value);
    else
      out_ = value;
  }
  void text(std::string& value) override { out_ = value; }
  void choice(std::size_t& value, const std::vector<std::string>& names) override { out_ = names.at(value); }
  void list(const ListDoor& door) override {
    out_ = Json::array();
    for (std::size_t i = 0; i < door.size(); ++i) {
      Dump element(out_.emplace_back());
      door.visit(i, element);
    }
  }
  void dict(const DictDoor& door) override {
    out_ = Json::object();
    for (const std::string& key : door.keys()) {
      Dump value(out_[key]);
      door.visit(key, value);
    }
  }
  void map(const MapDoor& door) override {
    out_ = Json::object();
    Fields fields(*this);
    door.describe(fields);
  }
  void or_auto(bool& automatic, const Door& door) override {
    if (automatic)
      out_ = "auto";
    else
      door.visit(*this);
  }
  void field(std::string_view key, std::string_view, bool, bool present, const Door& door) override {
    if (!present) return;
    Dump value(out_[std::string(key)]);
    door.visit(value);
  }

 private:
  Json& out_;
};

class Schema final : public Visitor {
 public:
  explicit Schema(Json& out) : out_(out) {}
  void boolean(bool&) override { out_["type"] = "boolean"; }
  void integer(std::int64_t&, const Range& range) override { ranged("integer", range); }
  void number(double&, const Range& range) override { ranged("number", range); }
  void text(std::string&) override { out_["type"] = "string"; }
  void choice(std::size_t&, const std::vector<std::string>& names) override { out_["enum"] = names; }
  void list(const ListDoor& door) override {
    out_["type"] = "array";
    door.resize(1);
    Schema element(out_["items"]);
    door.visit(0, element);
  }
  void dict(const DictDoor& door) override {
    out_["type"] = "object";
    Schema value(out_["additionalProperties"]);
    door.visit("key", value);
  }
  void map(const MapDoor& door) override {
    Json body = Json::object();
    body["type"] = "object";
    body["additionalProperties"] = false;
    body["properties"] = Json::object();
    Schema inner(body);
    Fields fields(inner);
    door.describe(fields);
    Json others = Json::array();
    if (!door.part.empty())
      others.push_back({{"type", "string"}, {"description", formatted("a path, or a name of configs/{}", door.part)}});
    if (!door.scalar_key.empty()) others.push_back(body["properties"][std::string(door.scalar_key)]);
    if (!door.list_key.empty()) others.push_back(body["properties"][std::string(door.list_key)]);
    if (others.empty()) {
      out_.update(body);
      return;
    }
    others.push_back(std::move(body));
    out_["anyOf"] = std::move(others);
  }
  void or_auto(bool&, const Door& door) override {
    Json value = Json::object();
    Schema inner(value);
    door.visit(inner);
    out_["anyOf"] = Json::array({{{"enum", {"auto"}}}, std::move(value)});
  }
  void field(std::string_view key, std::string_view doc, bool required, bool present, const Door& door) override {
    Json& entry = out_["properties"][std::string(key)];
    entry = Json::object();
    entry["description"] = doc;
    Schema inner(entry);
    door.visit(inner);
    if (required) out_["required"].push_back(key);
    if (!required && present) {
      Json value;
      Dump dump(value);
      door.visit(dump);
      if (value.is_primitive()) entry["default"] = std::move(value);
    }
  }

 private:
  void ranged(const char* type, const Range& range) {
    out_["type"] = type;
    if (std::isfinite(range.min)) out_[range.above_min ? "exclusiveMinimum" : "minimum"] = range.min;
    if (std::isfinite(range.max) && range.max < 1e18) out_["maximum"] = range.max;
  }
  Json& out_;
};

/// Plain when no YAML reader could take it for anything but this text.
bool plain_is_safe(const std::string& s) {
  static const std::vector<std::string> words{"true", "false", "null", "yes", "no", "on", "off", "y", "n"};
  std::string lower;
  for (const char c : s) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (s.empty() || std::find(words.begin(), words.end(), lower) != words.end()) return false;
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (!letter(s.front())) return false;
  for (const char c : s)
    if (!letter(c) && !(c >= '0' && c <= '9') && std::string_view("-./+ ").find(c) == std::string_view::npos)
      return false;
  return s.back() != ' ';
}

std::string scalar_text(const Json& value) {
  if (value.is_string()) {
    const auto& s = value.get_ref<const std::string&>();
    return plain_is_safe(s) ? s : value.dump();
  }
  return value.dump();
}

bool all_scalars(const Json& list) {
  return std::all_of(list.begin(), list.end(), [](const Json& v) { return v.is_primitive(); });
}

void write_yaml(std::string& out, const Json& value, std::size_t indent);

void write_entry(std::string& out, const Json& value, std::size_t indent) {
  if (value.is_object() ? !value.empty() : value.is_array() && !all_scalars(value)) {
    out += '\n';
    write_yaml(out, value, indent + 2);
  } else {
    out += ' ';
    write_yaml(out, value, indent);
    out += '\n';
  }
}

void write_yaml(std::string& out, const Json& value, std::size_t indent) {
  const std::string pad(indent, ' ');
  if (value.is_object() && value.empty()) {
    out += "{}";
  } else if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) {
      out += pad + scalar_text(Json(key)) + ":";
      write_entry(out, inner, indent);
    }
  } else if (value.is_array() && !all_scalars(value)) {
    for (const Json& inner : value) {
      std::string block;
      write_yaml(block, inner, indent + 2);
      if (inner.is_object() && !inner.empty())
        block.replace(indent, 2, "- ");
      else
        block = pad + "- " + block + "\n";
      out += block;
    }
  } else if (value.is_array()) {
    out += '[';
    for (std::size_t i = 0; i < value.size(); ++i) out += (i > 0 ? ", " : "") + scalar_text(value[i]);
    out += ']';
  } else {
    out += scalar_text(value);
  }
}

}  // namespace

namespace detail {

Json dump(const Door& door) {
  Json out;
  Dump visitor(out);
  door.visit(visitor);
  return out;
}

Json schema(const Door& door) {
  Json out;
  out["$schema"] = "https://json-schema.org/draft/2020-12/schema";
  Schema visitor(out);
  door.visit(visitor);
  return out;
}

}  // namespace detail

std::string to_yaml(const Json& value) {
  std::string out;
  write_yaml(out, value, 0);
  if (out.empty() || out.back() != '\n') out += '\n';
  return out;
}

std::string text_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return formatted("{:016x}", hash);
}

std::string config_hash(const Json& canonical) { return text_hash(canonical.dump()); }

}  // namespace specstep
