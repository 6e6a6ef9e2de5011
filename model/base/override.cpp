// `--set path=value`, and files that start from another (`base:`).

#include <algorithm>

#include "model/base/config_io.h"
#include "model/base/formatted.h"
#include "model/base/number.h"

namespace specstep {

namespace {
using yaml::Node;

void place_everywhere(Node& node, const Location& at) {
  node.at = at;
  for (Node& item : node.items) place_everywhere(item, at);
  for (yaml::Entry& entry : node.entries) {
    entry.at = at;
    place_everywhere(entry.value, at);
  }
}
}  // namespace

Override parse_override(const std::string& text, const std::string& option, const std::string& shape) {
  const Location at{option + " " + text, 0, 0};
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) throw InputError(Issue{at, "", "no 'path=' in front", shape});
  Override out;
  out.text = text;
  std::string path = text.substr(0, equals);
  for (std::size_t i = 0; i < path.size();) {
    if (path[i] == '[') {
      const std::size_t end = path.find(']', i);
      const std::string digits = end == std::string::npos ? "" : path.substr(i + 1, end - i - 1);
      if (!is_number(digits, true) || digits.front() == '-' || digits.front() == '+')
        throw InputError(Issue{at, path, "an index must be [number]", shape});
      out.path.push_back("[" + digits + "]");
      i = end + 1;
      if (i < path.size() && path[i] == '.') ++i;
      continue;
    }
    const std::size_t end = std::min(path.find_first_of(".[", i), path.size());
    if (end == i) throw InputError(Issue{at, path, "an empty key", shape});
    if (path.find_first_of(" \t\n", i) < end) throw InputError(Issue{at, path, "a space in a key", shape});
    out.path.push_back(path.substr(i, end - i));
    i = end;
    if (i < path.size() && path[i] == '.') {
      ++i;
      if (i == path.size()) throw InputError(Issue{at, path, "an empty key", shape});
    }
  }
  if (out.path.front().front() == '[') throw InputError(Issue{at, path, "an index without a list", shape});
  const std::string value = text.substr(equals + 1);
  if (value.empty()) throw InputError(Issue{at, path, "no value behind '='", shape});
  try {
    out.value = yaml::parse(value, at.file);
  } catch (const InputError& e) {
    const std::string what = e.issues().front().what;
    throw InputError(Issue{at, path, what == "the file is empty" ? "no value behind '='" : "the value " + what, shape});
  }
  place_everywhere(out.value, at);
  return out;
}

namespace {
Node load_chain(const std::filesystem::path& path, std::vector<std::filesystem::path>& open, Issues* faults,
                std::vector<std::filesystem::path>* files) {
  Node root = yaml::load(path, faults);
  if (files) files->push_back(path);
  if (root.kind != Node::Kind::map)
    throw InputError(Issue{root.at, "", formatted("the file holds {}", root.kind_name()), "a map of keys"});
  const Node* base = root.find("base");
  if (!base) return root;
  const Location at = base->at;
  if (base->kind != Node::Kind::scalar) throw InputError(Issue{at, "base", "is not text", "the path of a file"});
  const auto file = one_spelling(folder_of(path) / base->text);
  open.push_back(one_spelling(path));
  if (std::find(open.begin(), open.end(), file) != open.end())
    throw InputError(Issue{at, "base", formatted("'{}' leads back to itself", base->text), "a file that does not"});
  std::error_code failed;
  if (std::filesystem::is_directory(file, failed))
    throw InputError(Issue{at, "base", formatted("'{}' is a directory", base->text), "the path of a file"});
  if (!std::filesystem::is_regular_file(file, failed))
    throw InputError(Issue{at, "base", formatted("no such file '{}'", base->text), "a path relative to this file"});
  std::erase_if(root.entries, [](const yaml::Entry& e) { return e.key == "base"; });
  return yaml::merged(load_chain(file, open, faults, files), root);
}
}  // namespace

yaml::Node load_with_base(const std::filesystem::path& path, Issues* faults,
                          std::vector<std::filesystem::path>* files) {
  std::vector<std::filesystem::path> open;
  return load_chain(path, open, faults, files);
}

}  // namespace specstep
