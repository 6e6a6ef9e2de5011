// specstep list: what exists.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "comm/backend.h"
#include "comm/report/caps_table.h"
#include "model/base/formatted.h"
#include "sim/capabilities.h"
#include "sim/engine/engine.h"
#include "sim/executor.h"
#include "sim/file_kind.h"
#include "sim/report/metrics.h"
#include "tools/cli.h"

namespace specstep {

namespace {

using Json = nlohmann::ordered_json;

struct ListCommand {
  CommonOptions common;
  std::string schema;
  int ranks = 8;
  std::int64_t largest_bytes = 65536;
  bool metrics = false, backends = false, executors = false, reference = false, engines = false, capabilities = false,
       models = false;
};

Output metrics_list() {
  std::string text;
  Json json = Json::array();
  for (const MetricRow& row : metric_rows()) {
    text += formatted("{:<40} {:<10} {:<6} {}\n", row.name, row.unit, row.better == Better::higher ? "higher" : "lower",
                      row.definition);
    json.push_back({{"name", row.name},
                    {"unit", row.unit},
                    {"better", row.better == Better::higher ? "higher" : "lower"},
                    {"definition", row.definition}});
  }
  return {text, [json] { return json; }, {}};
}

Output backends_list(const ListCommand& options) {
  std::string text = comm::caps_text(options.ranks, options.largest_bytes);
  Json json = comm::caps_json(options.ranks, options.largest_bytes);
  text += "\n";
  for (const CommChoice& choice : comm_choices()) {
    text += formatted("{:<14} {}\n", choice.name, choice.summary);
    json.push_back({{"name", choice.name}, {"summary", choice.summary}});
  }
  return {text, [json] { return json; }, {}};
}

std::string backend_names() {
  std::string text;
  for (const comm::BackendRow& row : comm::backends()) text += formatted("{:<14} {}\n", row.id, row.summary);
  for (const CommChoice& choice : comm_choices()) text += formatted("{:<14} {}\n", choice.name, choice.summary);
  return text;
}

Output executors_list() {
  std::string text;
  Json json = Json::array();
  for (const ExecutorRow& row : executors()) {
    text += formatted("{:<10} {}{}\n", row.name, row.summary, row.refusal.empty() ? "" : " (" + row.refusal + ")");
    json.push_back({{"name", row.name}, {"summary", row.summary}, {"refusal", row.refusal}});
  }
  return {text, [json] { return json; }, {}};
}

/// Rules of engines by preset and version; the first that fits decides.
Output engines_list() {
  std::string text = "sizes of CUDA graphs\n";
  Json sizes = Json::array(), phases = Json::array(), attention = Json::array(), memory = Json::array();
  const auto since = [](const std::string& version) { return version == "0" ? "any" : "from " + version; };
  for (const GridRule& r : grid_rules()) {
    text += formatted("  {:<7} {:<12} {}\n{:23}{}\n", name_of(r.preset), since(r.since), r.what, "", r.source);
    sizes.push_back({{"preset", name_of(r.preset)}, {"since", r.since}, {"sizes", r.what}, {"source", r.source}});
  }
  text += "\nhow passes are launched\n";
  for (const PhaseRow& r : phase_rows()) {
    text += formatted("  {:<7} {:<12} {:<8} {:<9} {:<11} {}\n", name_of(r.preset), since(r.since), name_of(r.kind),
                      name_of(r.launch), r.attention_backend.empty() ? "any" : r.attention_backend, r.source);
    phases.push_back({{"preset", name_of(r.preset)},
                      {"since", r.since},
                      {"pass", name_of(r.kind)},
                      {"attention_backend", r.attention_backend},
                      {"launch", name_of(r.launch)},
                      {"source", r.source}});
  }
  text += "\nwhat attention backends of vllm do in a graph\n";
  for (const AttentionRow& r : attention_rows()) {
    text += formatted("  {:<15} {:<20} {}\n", r.backend, name_of(r.support), r.source);
    attention.push_back({{"backend", r.backend}, {"support", name_of(r.support)}, {"source", r.source}});
  }
  text += "\nmemory\n";
  const std::vector<std::string> rules = EnumNames<MemoryRule>::names();
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const std::string source = memory_rule_source(static_cast<MemoryRule>(i));
    text += formatted("  {:<18} {}\n", rules[i], source);
    memory.push_back({{"rule", rules[i]}, {"source", source}});
  }
  Json json = {{"sizes", sizes}, {"phases", phases}, {"attention", attention}, {"memory", memory}};
  return {text, [json] { return json; }, {}};
}

/// Names in lines of at most 100 characters, each behind an indent.
std::string filled(const std::vector<std::string>& names, std::size_t indent) {
  std::string out, line;
  for (const std::string& name : names) {
    if (!line.empty() && indent + line.size() + 2 + name.size() > 100) {
      out += std::string(indent, ' ') + line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : "  ") + name;
  }
  return line.empty() ? out : out + std::string(indent, ' ') + line + "\n";
}

/// Installed stacks, which is where a model's name leads.
Output models_list(const ConfigLibrary& library) {
  const std::vector<std::string> names = library.names("stacks");
  std::string text;
  for (const std::string& name : names) text += name + "\n";
  return {text, [names] { return Json(names); }, {}};
}

Output everything(const ConfigLibrary& library, const ListCommand& options) {
  std::string text = "executors\n" + executors_list().text + "\nbackends\n" + backend_names();
  Json json = {
      {"executors", executors_list().json()}, {"backends", backends_list(options).json()}, {"configs", Json::object()}};
  text += formatted("\nconfigs in {}\n", library.root().string());
  std::string last;
  for (const FileKind& kind : file_kinds()) {
    if (kind.folder == last || library.names(kind.folder).empty()) continue;  // runs and studies share one
    last = kind.folder;
    text += formatted("  {}\n{}", kind.folder, filled(library.names(kind.folder), 4));
    json["configs"][kind.folder] = library.names(kind.folder);
  }
  return {text, [json] { return json; }, {}};
}

void list(const ListCommand& options) {
  const int asked = (options.schema.empty() ? 0 : 1) + options.metrics + options.backends + options.executors +
                    options.reference + options.engines + options.capabilities + options.models;
  if (asked > 1)
    throw InputError(Issue{
        {"specstep list"},
        "",
        "several lists are asked for",
        "one of --schema, --models, --metrics, --backends, --executors, --engines, --capabilities and --reference"});
  if (!options.schema.empty()) {
    const Json schema = file_kind(options.schema).schema();
    return deliver(options.common, {schema.dump(2) + "\n", [&] { return schema; }, {}});
  }
  if (options.models) return deliver(options.common, models_list(ConfigLibrary::installed()));
  if (options.metrics) return deliver(options.common, metrics_list());
  if (options.backends) return deliver(options.common, backends_list(options));
  if (options.executors) return deliver(options.common, executors_list());
  if (options.engines) return deliver(options.common, engines_list());
  if (options.capabilities)
    return deliver(options.common, {capabilities_text(), [] { return capabilities_json(); }, {}});
  if (options.reference)
    return deliver(options.common, {config_reference(), [] { return Json(config_reference()); }, {}});
  deliver(options.common, everything(ConfigLibrary::installed(), options));
}

}  // namespace

void add_list(CLI::App& app) {
  auto options = std::make_shared<ListCommand>();
  CLI::App* command = app.add_subcommand("list", "what exists: executors, backends, configs, metrics, schemas");
  command->add_option("--schema", options->schema,
                      "JSON Schema of a kind of file, for editors: run, stack, machine, ...");
  command->add_flag("--models", options->models, "installed models, one a line: the stacks of configs/stacks");
  command->add_flag("--metrics", options->metrics, "every metric with its definition");
  CLI::Option* backends = command->add_flag("--backends", options->backends,
                                            "every comm backend: what it can, what it needs, what it promises");
  command->add_option("--ranks", options->ranks, "of --backends: ranks among which a rank's memory is told")
      ->check(CLI::Range(1, 8))
      ->needs(backends)
      ->capture_default_str();
  command->add_option("--largest-bytes", options->largest_bytes, "of --backends: the largest call in one piece")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30))
      ->needs(backends)
      ->capture_default_str();
  command->add_flag("--executors", options->executors, "every executor");
  command->add_flag("--engines", options->engines, "rules of serving engines by version, with their sources");
  command->add_flag("--capabilities", options->capabilities,
                    "what of engines and libraries runs on which GPUs, since when, with sources");
  command->add_flag("--reference", options->reference, "the config reference as Markdown");
  add_output(*command, options->common, "specstep list --schema run > run.schema.json");
  command->callback([options] { list(*options); });
}

}  // namespace specstep
