// specstep import: what other tools print, as files of specstep.

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "comm/import/likeness.h"
#include "comm/import/nccl_tests.h"
#include "model/base/formatted.h"
#include "model/import/hf_config.h"
#include "tools/cli.h"
#include "tools/fabric_argument.h"

namespace specstep {

namespace {

struct ImportCommand {
  CommonOptions common;
  std::string kind;
  std::string file;
  std::string like;
  std::string name;
  bool strict = false;
};

/// What an import gives: a file for stdout, notes for stderr, and what the source left open (refused by --strict).
struct ImportedText {
  std::string text;
  std::vector<std::string> notes;
  Issues open;
};

/// A kind of file that can be imported: one row.
struct ImportKind {
  std::string name;
  std::string summary;
  std::function<ImportedText(const ImportCommand& options, const ConfigLibrary& library)> run;
};

/// A fabric of `make`, with the numbers of the one that the user names or that fits.
ImportedText fabric_text(const ImportCommand& options, const ConfigLibrary& library, const comm::GpuFacts& facts,
                         const std::function<comm::Imported(const comm::FabricSpec&)>& make) {
  const comm::Likeness from = options.like.empty() ? comm::likeness(facts) : comm::Likeness{options.like, ""};
  const comm::FabricSpec like = fabric_argument(from.fabric, options.common, library).spec;
  comm::Imported imported = make(like);
  comm::note_likeness(imported, facts, from, like);
  ImportedText out{comm::imported_yaml(imported), {}, {}};
  for (const std::string& assumed : imported.assumed) {
    out.notes.push_back("assumed: " + assumed);
    out.open.push_back({{options.file}, "", assumed, ""});
  }
  out.notes.insert(out.notes.end(), imported.notes.begin(), imported.notes.end());
  return out;
}

ImportedText nccl_xml(const ImportCommand& options, const ConfigLibrary& library) {
  const std::string& file = options.file;
  const comm::XmlElement element = comm::parse_xml(yaml::read_text(file), file);
  if (element.name == "system")
    return fabric_text(options, library, comm::facts_of(element),
                       [&](const comm::FabricSpec& like) { return comm::fabric_from_nccl_xml(element, file, like); });
  const comm::NcclGraphElement g = comm::graph_element(element, file);
  const std::string open = "one entry of nccl.graphs; the number of ranks is not in the file: set it";
  return {
      formatted("# graph file: pattern {}, types {} and {}\nranks: 8\nchannels: {}\nchannel_gb_s: {{value: {}, source: "
                "\"imported from {}\"}}\n",
                g.pattern, g.type_intra, g.type_inter, g.channels, g.speed_intra, file),
      {"assumed: " + open},
      {{{file}, "", open, ""}}};
}

ImportedText nccl_tests(const ImportCommand& options, const ConfigLibrary&) {
  const comm::NcclTestTable table = comm::parse_nccl_tests(yaml::read_text(options.file), options.file);
  ImportedText out{table.csv(), table.notes, table.left_out};
  for (const Issue& issue : table.left_out) out.notes.push_back("left out: " + issue.text());
  comm::measured_table(comm::CsvTable::parse(out.text, "imported table"), {});  // what is written can be read
  out.notes.push_back(table.ranks ? formatted("{} ranks", *table.ranks)
                                  : "the number of ranks does not follow from the bandwidths");
  if (table.captured) out.notes.push_back(*table.captured ? "measured in a CUDA graph" : "launched eagerly (graph: 0)");
  return out;
}

ImportedText smi_topo(const ImportCommand& options, const ConfigLibrary& library) {
  const comm::SmiMatrix matrix = comm::parse_smi_topo(yaml::read_text(options.file), options.file);
  return fabric_text(options, library, comm::facts_of(matrix),
                     [&](const comm::FabricSpec& like) { return comm::fabric_from_smi(matrix, like); });
}

ImportedText p2p_matrix(const ImportCommand& options, const ConfigLibrary& library) {
  const comm::P2pMatrix matrix = comm::parse_p2p_matrix(yaml::read_text(options.file), options.file);
  return fabric_text(options, library, comm::facts_of(matrix),
                     [&](const comm::FabricSpec& like) { return comm::fabric_from_p2p(matrix, like); });
}

ImportedText hf_config(const ImportCommand& options, const ConfigLibrary&) {
  const HfImport imported = import_hf_config(std::filesystem::path(options.file), options.name);
  ImportedText out;
  for (const ImportNote& note : imported.notes) {
    out.notes.push_back(formatted("{}: {}", name_of(note.kind), note.text.text()));
    if (note.kind == ImportNote::Kind::ignored) continue;
    out.open.push_back(note.text);
    // What the reader of the result must know goes with it; the place in the source does not.
    Issue remark = note.text;
    remark.at = {};
    out.text += formatted("# {}: {}\n", name_of(note.kind), remark.text());
  }
  out.text +=
      to_yaml(std::visit([](const auto& spec) -> nlohmann::ordered_json { return dump_config(spec); }, imported.spec));
  return out;
}

const std::vector<ImportKind>& kinds() {
  static const std::vector<ImportKind> rows{
      {"hf-config", "config.json of a Hugging Face model: a stack or a draft", hf_config},
      {"nvidia-smi-topo", "the matrix of nvidia-smi topo -m: a fabric file", smi_topo},
      {"nccl-topo-xml", "NCCL's topology dump: a fabric file; a graph file: an entry of nccl.graphs", nccl_xml},
      {"p2p-matrix", "the output of p2pBandwidthLatencyTest: a fabric file", p2p_matrix},
      {"nccl-tests", "the output of all_reduce_perf: a measured table", nccl_tests},
  };
  return rows;
}

/// Options that the kind of import would not read.
void refuse_idle_options(const ImportCommand& options) {
  const bool model = options.kind == "hf-config";
  if (!model && !options.name.empty())
    throw InputError(Issue{{"--name"}, "", "is not read by " + options.kind, "import hf-config"});
  if (!options.like.empty() && (model || options.kind == "nccl-tests"))
    throw InputError(Issue{{"--like"}, "", "is not read by " + options.kind, "an import that gives a fabric"});
}

void run_import(const ImportCommand& options) {
  const ConfigLibrary library = ConfigLibrary::installed();
  std::vector<std::string> names;
  for (const ImportKind& kind : kinds()) {
    names.push_back(kind.name);
    if (kind.name != options.kind) continue;
    refuse_idle_options(options);
    options.common.inputs->emplace_back(options.file);
    check_outputs(options.common);
    const ImportedText out = kind.run(options, library);
    for (const std::string& note : out.notes) say("note: " + note);
    if (options.strict) throw_if_any(out.open);
    return deliver(options.common, {out.text,
                                    [&] {
                                      return nlohmann::ordered_json{{"text", out.text}, {"notes", out.notes}};
                                    },
                                    {}});
  }
  throw InputError(Issue{
      {"specstep import"}, options.kind, "no such kind of import" + did_you_mean(options.kind, names), one_of(names)});
}

}  // namespace

void add_import(CLI::App& app) {
  auto options = std::make_shared<ImportCommand>();
  CLI::App* command = app.add_subcommand("import", "what other tools print, as files of specstep");
  std::string kinds_text;
  for (const ImportKind& kind : kinds()) kinds_text += formatted("{}{}", kinds_text.empty() ? "" : ", ", kind.name);
  command->add_option("kind", options->kind, kinds_text)->required();
  command->add_option("file", options->file, "the file to import")->required();
  command->add_option("--like", options->like,
                      "fabric of similar GPUs, for what the file does not say; default: the installed one that fits");
  command->add_option("--name", options->name,
                      "hf-config: name of the result; otherwise _name_or_path, or that of the file or its folder");
  command->add_flag("--strict", options->strict, "refuse what the file leaves open, instead of saying what is assumed");
  add_output(*command, options->common, "specstep import nvidia-smi-topo topo.txt > my-fabric.yaml");
  command->callback([options] { run_import(*options); });
}

}  // namespace specstep
