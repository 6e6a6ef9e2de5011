// yaml-cpp's events, made into a strict tree.
#include "model/base/yaml.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <istream>
#include <sstream>
#include <unordered_map>

#include "model/base/formatted.h"

namespace specstep::yaml {

const Node* Node::find(std::string_view key) const {
  const auto it = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.key == key; });
  return it == entries.end() ? nullptr : &it->value;
}

Node* Node::find(std::string_view key) { return const_cast<Node*>(std::as_const(*this).find(key)); }

std::string_view Node::kind_name() const {
  switch (kind) {
    case Kind::null:
      return "nothing";
    case Kind::scalar:
      return quoted ? "quoted text" : "a plain value";
    case Kind::list:
      return "a list";
    case Kind::map:
      return "a map";
  }
  return "?";
}

namespace {

// Deeper than any config; keeps a hostile file from exhausting the stack.
constexpr std::size_t max_depth = 64;
constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

bool continues(unsigned char c) { return (c & 0xC0) == 0x80; }

/// Offset of the first byte that is not UTF-8 text, or npos. Control characters are none unless allowed.
std::size_t first_bad_byte(std::string_view text, bool controls = false) {
  for (std::size_t i = 0; i < text.size();) {
    const auto c = static_cast<unsigned char>(text[i]);
    const std::size_t length = c < 0x80 ? 1 : (c >> 5) == 6 ? 2 : (c >> 4) == 14 ? 3 : (c >> 3) == 30 ? 4 : 0;
    const bool control = !controls && c < 0x20 && c != '\n' && c != '\r' && c != '\t';
    if (length == 0 || control || i + length > text.size()) return i;
    for (std::size_t k = 1; k < length; ++k)
      if (!continues(static_cast<unsigned char>(text[i + k]))) return i;
    i += length;
  }
  return std::string_view::npos;
}

bool is_null_word(const std::string& text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

/// Builds the tree from events. A key and its value arrive as two events in a map; `pending_key` tells which is next.
class Builder final : public YAML::EventHandler {
 public:
  Builder(std::string file, Issues& issues) : file_(std::move(file)), issues_(issues) {}

  Node take() { return std::move(root_); }
  bool seen_document() const { return documents_ > 0; }

  void OnDocumentStart(const YAML::Mark&) override { ++documents_; }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_anchor(mark, anchor);
    add({.kind = Node::Kind::null, .at = place(mark)});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    issue(mark, "an alias (*name)", "write the value again, or keep it in a file of its own");
    add({.kind = Node::Kind::null, .at = place(mark)});
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    // Escapes such as \_ and \N come out as single bytes.
    if (first_bad_byte(value, true) != std::string_view::npos)
      issues_.push_back(
          {place(mark), "", "has an escape that gives no text", "the character itself, or one like \\u00a0"});
    const bool quoted = tag == "!";
    const bool null = !quoted && is_null_word(value);
    add({.kind = null ? Node::Kind::null : Node::Kind::scalar, .text = value, .quoted = quoted, .at = place(mark)});
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::list);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, Node::Kind::map);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    Node node;
    std::string key;
    Location key_at;
    bool has_key = false;
    std::unordered_map<std::string, Location> first_at;  // of the keys of a map
  };

  Location place(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }
  void issue(const YAML::Mark& mark, std::string what, std::string allowed) {
    issues_.push_back({place(mark), "", std::move(what), std::move(allowed)});
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) {
    if (anchor != 0)
      issue(mark, "an anchor (&name)", "write the value where it is used, or keep it in a file of its own");
  }
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) {
    if (!tag.empty() && tag != "?" && tag != "!") issue(mark, formatted("a tag ({})", tag), "plain values only");
  }

  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind) {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    if (levels_.size() >= max_depth)
      throw InputError(Issue{place(mark), "", "nested too deeply", formatted("at most {} levels", max_depth)});
    levels_.push_back({.node = {.kind = kind, .at = place(mark)}, .key = {}, .key_at = {}, .first_at = {}});
  }
  void close() {
    Node done = std::move(levels_.back().node);
    levels_.pop_back();
    add(std::move(done));
  }

  void add(Node node) {
    if (levels_.empty()) {
      root_ = std::move(node);
      return;
    }
    Level& level = levels_.back();
    if (level.node.kind == Node::Kind::list) {
      level.node.items.push_back(std::move(node));
    } else if (!level.has_key) {
      begin_key(level, node);
    } else {
      level.has_key = false;
      level.node.entries.push_back({std::move(level.key), level.key_at, std::move(node)});
    }
  }

  void begin_key(Level& level, const Node& node) {
    level.has_key = true;
    level.key = node.text;
    level.key_at = node.at;
    if (node.kind != Node::Kind::scalar || node.text.empty()) {
      issues_.push_back({node.at, "", formatted("{} as a key", node.kind_name()), "a key is plain text"});
      level.key = formatted("(key at {})", node.at.text());
      return;
    }
    if (node.text == "<<")
      issues_.push_back({node.at, "<<", "a merge key", "use 'base: FILE' to start from another file"});
    const auto [first, added] = level.first_at.try_emplace(node.text, node.at);
    if (!added) issues_.push_back({node.at, node.text, "given twice", formatted("first at {}", first->second.text())});
  }

  std::string file_;
  Issues& issues_;
  std::vector<Level> levels_;
  Node root_;
  int documents_ = 0;
};

void check_text(std::string_view text, const std::string& file) {
  const std::size_t bad = first_bad_byte(text);
  if (bad != std::string_view::npos) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(bad), '\n');
    const std::size_t start = bad == 0 ? std::string_view::npos : text.rfind('\n', bad - 1);
    const std::size_t column = start == std::string_view::npos ? bad + 1 : bad - start;
    throw InputError(Issue{{file, static_cast<int>(line), static_cast<int>(column)},
                           "",
                           formatted("byte 0x{:02x}, this is not a text file", static_cast<unsigned char>(text[bad])),
                           "UTF-8 text in YAML"});
  }
}

/// Tabs look like indentation and are not: refused everywhere but in comments.
void check_tabs(std::string_view text, const std::string& file, Issues& issues) {
  int line = 1;
  for (std::size_t start = 0; start < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view row = text.substr(start, end - start);
    const std::size_t tab = row.find('\t');
    if (tab != std::string_view::npos && row.substr(0, tab).find('#') == std::string_view::npos)
      issues.push_back({{file, line, static_cast<int>(tab) + 1}, "", "a tab", "indent and separate with spaces"});
    start = end + 1;
  }
}

}  // namespace

Node parse(std::string_view text, const std::string& file, Issues* faults) {
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  check_text(text, file);
  Issues issues;
  check_tabs(text, file, issues);
  throw_if_any(issues);
  Builder builder(file, issues);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    if (!builder.seen_document()) throw InputError(Issue{{file, 1, 1}, "", "the file is empty", "a map of keys"});
    Node root = builder.take();
    Issues ignored;
    Builder second(file, ignored);
    if (parser.HandleNextDocument(second))
      issues.push_back({second.take().at, "", "a second document", "one document in a file"});
    if (!faults) throw_if_any(issues);
    if (faults) faults->insert(faults->end(), issues.begin(), issues.end());
    return root;
  } catch (const YAML::Exception& e) {
    issues.push_back({{file, e.mark.line + 1, e.mark.column + 1},
                      "",
                      "is no YAML: " + e.msg,
                      "lines of 'key: value', lists as [a, b], every bracket and quote closed"});
    throw InputError(issues);
  }
}

std::string read_text(const std::filesystem::path& path, std::uintmax_t limit) {
  const std::string file = path.string();
  std::error_code failed;
  const auto status = std::filesystem::status(path, failed);
  if (!std::filesystem::exists(status)) throw InputError(Issue{{file}, "", "no such file", "a path that exists"});
  if (std::filesystem::is_directory(status)) throw InputError(Issue{{file}, "", "is a directory", "a file"});
  if (std::filesystem::is_regular_file(status)) {
    const std::uintmax_t size = std::filesystem::file_size(path, failed);
    if (!failed && size > limit)
      throw InputError(Issue{{file},
                             "",
                             formatted("is {:.1f} MB large", static_cast<double>(size) / 1e6),
                             formatted("at most {:.1f} MB", static_cast<double>(limit) / 1e6)});
  }
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text;
  std::vector<char> block(1 << 16);
  while (in) {
    in.read(block.data(), static_cast<std::streamsize>(block.size()));
    text.append(block.data(), static_cast<std::size_t>(in.gcount()));
    if (text.size() > limit)
      throw InputError(
          Issue{{file}, "", "is too large", formatted("at most {:.1f} MB", static_cast<double>(limit) / 1e6)});
  }
  if (!in.eof())
    throw InputError(
        Issue{{file}, "", formatted("cannot be read: {}", std::strerror(errno)), "a file that can be read"});
  if (text.starts_with(byte_order_mark)) text.erase(0, byte_order_mark.size());
  return text;
}

Node load(const std::filesystem::path& path, Issues* faults) { return parse(read_text(path), path.string(), faults); }

void forget_source(Node& quantity) {
  std::erase_if(quantity.entries, [](const Entry& e) { return e.key == "source" || e.key == "fitted"; });
}

Node merged(Node base, const Node& over) {
  if (base.kind == Node::Kind::scalar && over.kind == Node::Kind::map && !over.find("base")) {
    Node out = over;
    out.under = std::make_shared<const Node>(std::move(base));
    return out;
  }
  if (base.kind != Node::Kind::map || over.kind != Node::Kind::map || over.find("base")) return over;
  if (base.find("source") && over.find("value")) forget_source(base);
  std::unordered_map<std::string, std::size_t> at;  // of each key; the first counts
  for (std::size_t i = 0; i < base.entries.size(); ++i) at.try_emplace(base.entries[i].key, i);
  for (const Entry& entry : over.entries) {
    const auto [found, added] = at.try_emplace(entry.key, base.entries.size());
    if (added) {
      base.entries.push_back(entry);
      continue;
    }
    Node& value = base.entries[found->second].value;
    value = merged(std::move(value), entry.value);
  }
  base.at = over.at;
  return base;
}

}  // namespace specstep::yaml
