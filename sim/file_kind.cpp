// One row for each kind of file, and the reference printed from their schemas.
#include "sim/file_kind.h"

#include <nlohmann/json.hpp>

#include "model/base/formatted.h"
#include "sim/study_config.h"

namespace specstep {

using Json = nlohmann::ordered_json;

namespace {

template <class T>
FileKind row(std::string name, std::string folder, std::string summary, std::vector<std::string> keys) {
  return {std::move(name),
          std::move(folder),
          std::move(summary),
          [keys](const yaml::Node& root) {
            return std::all_of(keys.begin(), keys.end(),
                               [&](const std::string& key) { return root.find(key) != nullptr; });
          },
          [](const yaml::Node& root, const ReadOptions& options, Issues issues) -> Json {
            return dump_config(read_config<T>(root, options, nullptr, std::move(issues)));
          },
          []() -> Json { return schema_of<T>(); }};
}

/// A study is valid when every variant of its runs is.
FileKind study_row() {
  FileKind out = row<StudyConfig>("study", "runs", "several runs with reported figures beside them", {"runs"});
  out.read = [](const yaml::Node& root, const ReadOptions& options, Issues issues) -> Json {
    return dump_config(read_study(root, options, nullptr, std::move(issues)).config);
  };
  return out;
}

}  // namespace

const std::vector<FileKind>& file_kinds() {
  static const std::vector<FileKind> rows{
      study_row(),
      row<RunConfig>("run", "runs", "everything one run is made of", {"stack"}),
      row<DraftSpec>("draft", "drafts", "a draft model", {"method"}),
      row<StackSpec>("stack", "stacks", "a transformer", {"layers"}),
      row<MachineSpec>("machine", "machines", "GPUs, fabric, host", {"gpu", "fabric"}),
      row<GpuSpec>("gpu", "gpus", "one kind of GPU", {"memory_bandwidth_gb_s"}),
      row<EngineSpec>("engine", "engines", "a serving engine", {"preset"}),
      row<comm::FabricSpec>("fabric", "fabrics", "what connects the GPUs of a machine", {"links"}),
      row<CollectiveTable>("collectives", "collectives", "measured times of a machine's allreduces", {"curves"}),
      row<CycleSpec>("cycle", "cycles", "passes of a round of speculation, and host work between them", {"rules"}),
      row<SkewSpec>("skew", "skews", "how late ranks arrive at allreduces", {"of"}),
      row<AcceptanceDataset>("acceptance", "acceptance", "published acceptance of a model on a data set", {"licence"}),
      row<CommTableFile>("comm-table", "tables", "which backend carries which message sizes", {"table"}),
  };
  return rows;
}

const FileKind& file_kind(const std::string& name) {
  std::vector<std::string> names;
  for (const FileKind& kind : file_kinds()) {
    if (kind.name == name) return kind;
    names.push_back(kind.name);
  }
  throw InputError(Issue{{name}, "", "no such kind of file" + did_you_mean(name, names), one_of(names)});
}

std::optional<std::filesystem::path> installed_file(const std::string& name, const ConfigLibrary& library) {
  std::error_code failed;
  const std::filesystem::path whole = library.root() / (name + ".yaml");  // "stacks/tiny"
  if (std::filesystem::is_regular_file(whole, failed)) return whole;
  for (const FileKind& kind : file_kinds()) {
    const std::filesystem::path file = library.root() / kind.folder / (name + ".yaml");
    if (std::filesystem::is_regular_file(file, failed)) return file;
  }
  return std::nullopt;
}

CheckedFile check_file(const std::filesystem::path& path, const ReadOptions& options) {
  Issues faults;
  const yaml::Node root = load_with_base(path, &faults, options.files);
  std::string kinds;
  for (const FileKind& kind : file_kinds()) {
    if (kind.matches(root)) return {kind.name, std::make_shared<Json>(kind.read(root, options, std::move(faults)))};
    kinds += (kinds.empty() ? "" : ", ") + kind.name;
  }
  faults.push_back({root.at, "", "no kind of file has these keys", "one of " + kinds});
  throw InputError(faults);
}

namespace {

std::string type_text(const Json& s) {
  if (s.contains("anyOf")) {
    std::string out;
    for (const Json& one : s["anyOf"]) out += (out.empty() ? "" : " or ") + type_text(one);
    return out;
  }
  if (s.contains("enum")) {
    std::vector<std::string> names = s["enum"];
    return one_of(names);
  }
  if (!s.contains("type")) return "any";
  const std::string type = s["type"];
  if (type == "array") return "list of " + type_text(s["items"]);
  if (type == "object") return "map";
  std::string out = type == "string" ? "text" : type == "boolean" ? "true or false" : type;
  if (s.contains("minimum")) out += formatted(" >= {}", s["minimum"].get<double>());
  if (s.contains("exclusiveMinimum")) out += formatted(" > {}", s["exclusiveMinimum"].get<double>());
  if (s.contains("maximum")) out += formatted(" <= {}", s["maximum"].get<double>());
  return out;
}

const Json* properties_of(const Json& s) {
  if (s.contains("properties")) return &s["properties"];
  if (s.contains("items")) return properties_of(s["items"]);
  if (s.contains("additionalProperties") && s["additionalProperties"].is_object())
    return properties_of(s["additionalProperties"]);
  if (!s.contains("anyOf")) return nullptr;
  for (const Json& one : s["anyOf"])  // the map itself before what its shorthands hold
    if (one.contains("properties")) return &one["properties"];
  for (const Json& one : s["anyOf"])
    if (const Json* found = properties_of(one)) return found;
  return nullptr;
}

bool requires_key(const Json& s, const std::string& key) {
  if (!s.contains("required")) return false;
  const auto& names = s["required"];
  return std::find(names.begin(), names.end(), key) != names.end();
}

bool is_part(const Json& s) {
  return s.contains("anyOf") && !s["anyOf"].empty() &&
         s["anyOf"][0].value("description", "").starts_with("a path, or a name of");
}

const Json& object_of(const Json& s) {
  if (s.contains("items")) return object_of(s["items"]);
  if (s.contains("anyOf"))
    for (const Json& one : s["anyOf"])
      if (one.contains("properties")) return one;
  return s;
}

void append_keys(std::string& out, const Json& schema, const std::string& prefix) {
  const Json* properties = properties_of(schema);
  if (!properties) return;
  const Json& owner = object_of(schema);
  for (const auto& [key, value] : properties->items()) {
    const bool quantity = value.contains("anyOf") && properties_of(value) && properties_of(value)->contains("fitted");
    const std::string type = quantity ? "number, or {value, source, fitted}" : type_text(value);
    std::string fallback = requires_key(owner, key)    ? "required"
                           : value.contains("default") ? value["default"].dump()
                                                       : "";
    out += formatted("| `{}{}` | {} | {} | {} |\n", prefix, key, type, fallback, value.value("description", ""));
    if (quantity || is_part(value)) continue;
    append_keys(out, value, prefix + key + (value.value("type", "") == "array" ? "[]." : "."));
  }
}

}  // namespace

std::string config_reference() {
  std::string out =
      "# Config reference\n\nPrinted by `specstep list --reference`; a test holds it against the code.\n"
      "Any file may start from another one with `base: PATH`: maps merge, everything else is replaced.\n"
      "A part (stack, machine, ...) is an inline map, a path relative to the file, or the name of an installed "
      "config.\n";
  for (const FileKind& kind : file_kinds()) {
    out += formatted("\n## {}\n\n{}{} (`configs/{}/`).\n\n| key | value | default | meaning |\n|---|---|---|---|\n",
                     kind.name, static_cast<char>(std::toupper(static_cast<unsigned char>(kind.summary[0]))),
                     kind.summary.substr(1), kind.folder);
    append_keys(out, kind.schema(), "");
  }
  return out;
}

}  // namespace specstep
