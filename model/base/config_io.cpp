// The reader: a strict YAML tree into a described struct, with overrides, parts and every fault at once.
#include "model/base/config_io.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "model/base/formatted.h"
#include "model/base/number.h"
#include "model/base/printable.h"

namespace specstep {

namespace {

std::string joined(const std::vector<std::string>& path) {
  std::string out;
  for (const std::string& part : path) {
    if (!out.empty() && part.front() != '[') out += '.';
    out += part;
  }
  return out;
}

using yaml::Node;

/// What all readers of one file share.
struct Context {
  const ReadOptions& options;
  std::vector<Override> overrides;  // a copy: an index of a list shorthand is spelled out on the way
  Sources& sources;
  Issues& issues;
  std::set<const Override*> used;
  std::set<const Override*> replaced;                 // by a later value of a key that they reach into
  std::vector<std::filesystem::path> open_files;      // parts being read, to refuse cycles
  std::vector<std::vector<std::string>> empty_lists;  // paths of lists without an element
};

class Reader final : public Visitor {
 public:
  Reader(Context& context, const Node& node, std::vector<std::string> path)
      : context_(context), node_(&node), path_(std::move(path)) {}

  void boolean(bool& value) override {
    static const std::vector<std::string> yes{"true", "True", "TRUE"};
    static const std::vector<std::string> no{"false", "False", "FALSE"};
    const bool plain = node_->kind == Node::Kind::scalar && !node_->quoted;
    const auto is = [&](const std::vector<std::string>& words) {
      return plain && std::find(words.begin(), words.end(), node_->text) != words.end();
    };
    if (is(yes))
      value = true;
    else if (is(no))
      value = false;
    else
      wrong("true or false (yes, on and 1 are not)");
  }

  void integer(std::int64_t& value, const Range& range) override {
    const std::string allowed = "an integer" + (range.text().empty() ? "" : " " + range.text());
    std::int64_t parsed = 0;
    if (!plain_scalar() || !is_number(node_->text, true) || !parse_number(node_->text, parsed)) return wrong(allowed);
    if (!range.holds(static_cast<double>(parsed))) return wrong(allowed);
    value = parsed;
  }

  void number(double& value, const Range& range) override {
    const std::string allowed = "a number" + (range.text().empty() ? "" : " " + range.text());
    double parsed = 0;
    if (!plain_scalar() || !is_number(node_->text, false) || !parse_number(node_->text, parsed)) return wrong(allowed);
    if (!std::isfinite(parsed) || !range.holds(parsed)) return wrong(allowed);
    value = parsed;
  }

  void text(std::string& value) override {
    if (node_->kind != Node::Kind::scalar) return wrong("text");
    if (steers_terminal(node_->text)) return wrong("text without control characters");
    const bool title = !path_.empty() && path_.back() == "name";
    if (title && node_->text.find('\n') != std::string::npos) return wrong("one line");
    value = node_->text;
  }

  void choice(std::size_t& value, const std::vector<std::string>& names) override {
    const auto found = std::find(names.begin(), names.end(), node_->text);
    if (node_->kind != Node::Kind::scalar || found == names.end())
      return wrong(one_of(names) + (node_->kind == Node::Kind::scalar ? did_you_mean(node_->text, names) : ""));
    value = static_cast<std::size_t>(found - names.begin());
  }

  void list(const ListDoor& door) override {
    Node local = *node_;
    if (local.kind == Node::Kind::null) local.kind = Node::Kind::list;  // made by an override of an element
    if (local.kind != Node::Kind::list) return wrong("a list, as in [a, b]");
    forget_replaced();
    apply_list_overrides(local);
    if (local.items.empty()) context_.empty_lists.push_back(path_);
    door.resize(local.items.size());
    for (std::size_t i = 0; i < local.items.size(); ++i) {
      Reader element(context_, local.items[i], extended(formatted("[{}]", i)));
      context_.sources[joined(element.path_)] = local.items[i].at;
      if (element.has_value()) door.visit(i, element);
    }
  }

  void dict(const DictDoor& door) override {
    Node local = *node_;
    if (local.kind == Node::Kind::null) local.kind = Node::Kind::map;
    if (local.kind != Node::Kind::map) return wrong("a map");
    forget_replaced();
    apply_map_overrides(local);
    for (const yaml::Entry& entry : local.entries) {
      Reader value(context_, entry.value, extended(entry.key));
      context_.sources[joined(value.path_)] = entry.value.at;
      if (value.has_value()) door.visit(entry.key, value);
    }
  }

  void map(const MapDoor& door) override {
    Node local = *node_;
    const std::size_t opened = context_.open_files.size();
    if (!door.part.empty() && local.kind == Node::Kind::scalar) {
      if (!open_part(local, door.part)) return;
    } else if (!door.part.empty() && local.kind == Node::Kind::map && !open_under(local, door.part)) {
      return;
    } else if (!door.scalar_key.empty() && local.kind == Node::Kind::scalar) {
      local = wrapped(door.scalar_key);
    } else if (!door.list_key.empty() && local.kind == Node::Kind::list) {
      if (local.items.empty()) return report(local.at, std::string(door.list_key), "is empty", "one element or more");
      local = wrapped(door.list_key);
    }
    if (!door.list_key.empty()) spell_out_indices(door.list_key);
    const bool named = !door.part.empty() && node_->kind == Node::Kind::scalar;
    if (!named) forget_replaced();
    if (!door.part.empty()) tell_changes(local);
    read_map(door, local);
    context_.open_files.resize(opened);
  }

  void or_auto(bool& automatic, const Door& door) override {
    automatic = plain_scalar() && node_->text == "auto";
    if (automatic) return;
    or_auto_ = true;
    door.visit(*this);
  }

  void field(std::string_view key, std::string_view doc, bool required, bool, const Door& door) override {
    known_.emplace_back(key);
    const Node* value = node_->find(key);
    if (!value) {
      if (required) report(node_->at, std::string(key), "missing", std::string(doc));
      return;
    }
    Reader inner(context_, *value, extended(std::string(key)));
    context_.sources[joined(inner.path_)] = value->at;
    if (inner.has_value()) door.visit(inner);
  }

 private:
  std::vector<std::string> extended(std::string key) const {
    std::vector<std::string> path = path_;
    path.push_back(std::move(key));
    return path;
  }

  bool plain_scalar() const { return node_->kind == Node::Kind::scalar && !node_->quoted; }

  /// A key with nothing behind it is a fault, never a default. A map may be empty: overrides may fill it.
  bool has_value() {
    if (node_->kind != Node::Kind::null) return true;
    for (const Override& o : context_.overrides)
      if (reaches_below(o)) return true;
    wrong(node_->text == "null" ? "a value; the text null is written \"null\"" : "a value, or leave the key out");
    return false;
  }

  void wrong(const std::string& allowed) {
    std::string what = node_->kind == Node::Kind::scalar && node_->text.size() <= 80
                           ? formatted("is '{}'", node_->text)
                           : formatted("is {}", node_->kind_name());
    if (node_->quoted) what += " (quoted text)";
    context_.issues.push_back({node_->at, joined(path_), what, or_auto_ ? "auto, or " + allowed : allowed});
  }

  void report(const Location& at, const std::string& key, std::string what, std::string allowed) {
    context_.issues.push_back({at, joined(extended(key)), std::move(what), std::move(allowed)});
  }

  Node wrapped(std::string_view key) const {
    Node out{.kind = Node::Kind::map, .text = {}, .items = {}, .entries = {}, .at = node_->at};
    out.entries.push_back({std::string(key), node_->at, *node_});
    return out;
  }

  /// `comm[0].backend` of a map whose list shorthand is `table` means `comm.table[0].backend`.
  void spell_out_indices(std::string_view list_key) {
    for (Override& o : context_.overrides)
      if (reaches_below(o) && o.path[path_.size()].front() == '[')
        o.path.insert(o.path.begin() + static_cast<std::ptrdiff_t>(path_.size()), std::string(list_key));
  }

  /// A part given as a map may start from another one: `base: NAME` inside it, or the name it had in a base file.
  bool open_under(Node& local, std::string_view folder) {
    const Node* base = local.find("base");
    if (!base) base = local.under.get();
    if (!base) return true;
    const Node named = *base;
    if (named.kind != Node::Kind::scalar) {
      report(named.at, "base", "is not text", "a path, or a name of configs/" + std::string(folder));
      return false;
    }
    Node part;
    if (!Reader(context_, named, path_).open_part(part, folder)) return false;
    std::erase_if(local.entries, [](const yaml::Entry& e) { return e.key == "base"; });
    for (const yaml::Entry& entry : local.entries) laid_over_.push_back(entry.key);
    local = yaml::merged(std::move(part), local);
    return true;
  }

  /// A part whose keys are changed is no longer what its name says.
  void tell_changes(Node& part) const {
    std::vector<std::string> changed = laid_over_;
    for (const Override& o : context_.overrides)
      if (reaches_below(o)) changed.push_back(o.path[path_.size()]);
    Node* name = part.find("name");
    if (changed.empty() || !name || name->kind != Node::Kind::scalar) return;
    std::string keys;
    for (std::size_t i = 0; i < changed.size(); ++i) {
      if (changed[i] == "name") return;
      if (std::find(changed.begin(), changed.begin() + static_cast<std::ptrdiff_t>(i), changed[i]) ==
          changed.begin() + static_cast<std::ptrdiff_t>(i))
        keys += (keys.empty() ? "" : ", ") + changed[i];
    }
    const std::string suffix = formatted(" ({} changed)", keys);
    if (!name->text.ends_with(suffix)) name->text += suffix;
  }

  bool open_part(Node& local, std::string_view folder) {
    if (!context_.options.library) {
      wrong("an inline map (no installed configs here)");
      return false;
    }
    try {
      const std::filesystem::path from = node_->at.line > 0 ? std::filesystem::path(node_->at.file) : "";
      const auto file = one_spelling(
          context_.options.library->find(node_->text, std::string(folder), from, node_->at, joined(path_)));
      if (std::find(context_.open_files.begin(), context_.open_files.end(), file) != context_.open_files.end()) {
        report_cycle(file);
        return false;
      }
      local = load_with_base(file, &context_.issues, context_.options.files);
      const auto& refuses = context_.options.refuses_part;
      if (const std::string why = refuses ? refuses(local, folder) : ""; !why.empty())
        throw InputError(Issue{{file.string()}, "", why, "a file of another kind"});
      context_.open_files.push_back(file);
      return true;
    } catch (const InputError& e) {
      for (Issue issue : e.issues()) {
        if (issue.at.line == 0 && issue.at.file != node_->at.file)  // of the file as a whole: told where it is named
          issue = {node_->at, joined(path_), formatted("'{}' {}", issue.at.file, issue.what), issue.allowed};
        context_.issues.push_back(issue);
      }
      return false;
    }
  }

  void report_cycle(const std::filesystem::path& file) {
    context_.issues.push_back({node_->at, joined(path_), formatted("'{}' includes itself", file.string()),
                               "a file that does not lead back here"});
  }

  void read_map(const MapDoor& door, Node& local) {
    if (local.kind == Node::Kind::null) local.kind = Node::Kind::map;
    if (local.kind != Node::Kind::map) return wrong("a map of keys");
    apply_map_overrides(local);
    const std::size_t before = context_.issues.size();
    Reader body(context_, local, path_);
    Fields fields(body);
    door.describe(fields);
    body.refuse_unknown();
    if (door.check && context_.issues.size() == before) {
      Checker checker(joined(path_), context_.sources, local.at, context_.issues);
      door.check(checker);
      blame_empty_list(before);
    }
  }

  /// A map that is found empty, because the one list in it is: that list is at fault.
  void blame_empty_list(std::size_t first_issue) {
    for (std::size_t i = first_issue; i < context_.issues.size(); ++i) {
      Issue& issue = context_.issues[i];
      if (issue.key != joined(path_) || issue.what != "is empty") continue;
      for (const std::vector<std::string>& list : context_.empty_lists) {
        if (list.size() != path_.size() + 1 || !std::equal(path_.begin(), path_.end(), list.begin())) continue;
        issue.key = joined(list);
        issue.at = place_of(issue.key, context_.sources, issue.at);
        issue.allowed = "one element or more";
      }
    }
  }

  void refuse_unknown() {
    const std::string allowed = "allowed: " + one_of(known_);
    for (const yaml::Entry& entry : node_->entries) {
      if (std::find(known_.begin(), known_.end(), entry.key) != known_.end()) continue;
      // Guesses cost time, and beyond these nobody sees them.
      const bool shown = context_.issues.size() < most_shown_issues;
      report(entry.at, entry.key, "unknown key" + (shown ? did_you_mean(entry.key, known_) : ""), allowed);
    }
  }

  bool reaches_below(const Override& o) const {
    return o.path.size() > path_.size() && std::equal(path_.begin(), path_.end(), o.path.begin()) &&
           !context_.replaced.contains(&o);
  }

  /// The last value counts, also where an earlier one reached into it. Names of parts are no values in this sense: a
  /// path reaches into a part whichever order they are given in.
  void forget_replaced() {
    const auto& all = context_.overrides;
    const auto last = std::find_if(all.rbegin(), all.rend(), [&](const Override& o) { return o.path == path_; });
    for (auto o = last; o != all.rend(); ++o) {
      if (!reaches_below(*o)) continue;
      context_.replaced.insert(&*o);
      context_.used.insert(&*o);
    }
  }

  void apply_map_overrides(Node& local) {
    for (const Override& o : context_.overrides) {
      if (!reaches_below(o)) continue;
      const std::string& key = o.path[path_.size()];
      if (key.front() == '[') continue;
      const bool last = o.path.size() == path_.size() + 1;
      Node* found = local.find(key);
      if (!found) {
        Node empty{.kind = Node::Kind::null, .text = {}, .items = {}, .entries = {}, .at = o.value.at};
        local.entries.push_back({key, o.value.at, std::move(empty)});
        found = &local.entries.back().value;
      }
      if (!last) continue;
      *found = o.value;
      context_.used.insert(&o);
      if (key == "value") yaml::forget_source(local);
    }
  }

  void apply_list_overrides(Node& local) {
    for (const Override& o : context_.overrides) {
      if (!reaches_below(o)) continue;
      const std::string& key = o.path[path_.size()];
      std::size_t index = 0;
      if (key.front() != '[') continue;
      if (!parse_number(std::string_view(key).substr(1, key.size() - 2), index))  // more digits than any list has
        index = std::numeric_limits<std::size_t>::max();
      const bool last = o.path.size() == path_.size() + 1;
      if (index > local.items.size()) {
        context_.issues.push_back({o.value.at, joined(path_), formatted("has no element {}", key),
                                   formatted("[0] to [{}]; the last one appends", local.items.size())});
        context_.used.insert(&o);
        continue;
      }
      if (index == local.items.size())
        local.items.push_back({.kind = Node::Kind::null, .text = {}, .items = {}, .entries = {}, .at = o.value.at});
      if (!last) continue;
      local.items[index] = o.value;
      context_.used.insert(&o);
    }
  }

  Context& context_;
  const Node* node_;
  std::vector<std::string> path_;
  std::vector<std::string> known_;
  std::vector<std::string> laid_over_;  // keys that change those of a part's file
  bool or_auto_ = false;                // the word auto would do as well
};

}  // namespace

namespace detail {

void read(const yaml::Node& root, const ReadOptions& options, const Door& door, Sources& sources, Issues& issues) {
  Context context{options, options.overrides, sources, issues, {}, {}, {}, {}};
  if (root.at.line > 0) context.open_files.push_back(one_spelling(root.at.file));
  Reader reader(context, root, {});
  door.visit(reader);
  for (const Override& o : context.overrides)
    if (!context.used.contains(&o) && issues.empty())
      issues.push_back({o.value.at, joined(o.path), "sets nothing", "the path of a key of this file"});
}

}  // namespace detail
}  // namespace specstep
