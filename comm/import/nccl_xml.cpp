// A reader for elements and attributes. No entities, no text, no namespaces: NCCL writes none.
#include "comm/import/nccl_xml.h"

#include <cctype>
#include <charconv>

#include "model/base/error.h"

namespace specstep::comm {
namespace {

constexpr int deepest = 64;

class Reader {
 public:
  Reader(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  XmlElement document() {
    skip();
    if (done() || peek() != '<') refuse("no element", "an XML file as NCCL writes it");
    XmlElement root = element(0);
    skip();
    if (!done()) refuse("text after the last element", "one element");
    return root;
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& allowed) const {
    refuse({file_, line_, column()}, what, allowed);
  }
  [[noreturn]] static void refuse(const Location& at, const std::string& what, const std::string& allowed) {
    throw InputError({at, "", what, allowed});
  }
  int column() const { return static_cast<int>(at_ - line_begin_) + 1; }
  bool done() const { return at_ >= text_.size(); }
  char peek() const { return text_[at_]; }
  char take() {
    if (done()) refuse("the file ends inside a tag", "a closed tag");
    const char c = text_[at_++];
    if (c == '\n') {
      ++line_;
      line_begin_ = at_;
    }
    return c;
  }
  bool ahead(std::string_view what) const { return text_.substr(at_, what.size()) == what; }
  void blanks() {
    while (!done() && std::isspace(static_cast<unsigned char>(peek()))) take();
  }
  void pass(std::string_view end) {
    while (!done() && !ahead(end)) take();
    for (std::size_t i = 0; i < end.size() && !done(); ++i) take();
  }
  /// Blanks, comments and declarations.
  void skip() {
    for (blanks(); ahead("<!--") || ahead("<?"); blanks()) pass(ahead("<?") ? "?>" : "-->");
  }
  std::string word() {
    std::string name;
    while (!done() &&
           (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '_' || peek() == '-' || peek() == ':'))
      name += take();
    if (name.empty()) refuse("no name where one must be", "letters and digits");
    return name;
  }

  void attributes(XmlElement& e) {
    for (blanks(); !done() && peek() != '>' && peek() != '/'; blanks()) {
      const std::string key = word();
      if (done() || take() != '=' || done() || take() != '"')
        refuse("attribute '" + key + "' has no value in quotes", key + "=\"...\"");
      std::string value;
      while (!done() && peek() != '"') value += take();
      take();
      e.attributes.emplace_back(key, std::move(value));
    }
  }

  XmlElement element(int depth) {
    if (depth > deepest) refuse("elements nested too deep", "at most 64 levels");
    XmlElement e;
    e.line = line_;
    e.column = column();
    take();
    e.name = word();
    attributes(e);
    if (take() == '/') {
      if (take() != '>') refuse("'/' without '>'", "/>");
      return e;
    }
    for (skip(); !ahead("</"); skip()) {
      if (done())
        refuse({file_, e.line, e.column}, "unclosed element '" + e.name + "' at line " + std::to_string(e.line),
               "</" + e.name + ">");
      if (peek() != '<') refuse("text inside '" + e.name + "'", "elements and attributes only");
      e.children.push_back(element(depth + 1));
    }
    take();
    take();
    const std::string closing = word();
    if (closing != e.name)
      refuse("'</" + closing + ">' closes '" + e.name + "' of line " + std::to_string(e.line), "</" + e.name + ">");
    blanks();
    if (take() != '>') refuse("closing tag without '>'", ">");
    return e;
  }

  std::string_view text_;
  const std::string& file_;
  std::size_t at_ = 0;
  std::size_t line_begin_ = 0;
  int line_ = 1;
};

double number(const XmlElement& e, const char* key, const std::string& file) {
  const std::string text = e.text(key);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    throw InputError({{file, e.line, e.column}, key, "'" + text + "' is not a number", "a number of at least 0"});
  return value;
}

}  // namespace

const std::string* XmlElement::attribute(std::string_view key) const {
  for (const auto& [name_of_attribute, value] : attributes)
    if (name_of_attribute == key) return &value;
  return nullptr;
}

std::string XmlElement::text(std::string_view key) const {
  const std::string* value = attribute(key);
  return value ? *value : "";
}

XmlElement parse_xml(std::string_view text, const std::string& file) { return Reader(text, file).document(); }

NcclGraphElement graph_element(const XmlElement& e, const std::string& file) {
  if (e.name == "graphs" && !e.children.empty()) return graph_element(e.children.front(), file);
  if (e.name != "graph") throw InputError({{file, e.line, e.column}, "", "<" + e.name + ">", "a <graph> element"});
  return {static_cast<int>(number(e, "pattern", file)),
          static_cast<int>(number(e, "nchannels", file)),
          number(e, "speedintra", file),
          number(e, "speedinter", file),
          e.text("typeintra"),
          e.text("typeinter")};
}

}  // namespace specstep::comm
