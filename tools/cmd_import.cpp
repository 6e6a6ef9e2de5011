// specstep import: what other tools print, as files of specstep.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "comm/import/imported.h"
#include "comm/import/nccl_tests.h"
#include "comm/topology.h"
#include "tools/cli.h"
#include "tools/fabric_argument.h"

namespace specstep {

namespace {

struct ImportCommand {
  CommonOptions common;
  std::string kind;
  std::string file;
  std::string like = "switch_4p4_microchip";
};

/// What an import gives: a file for stdout, notes for stderr.
struct ImportedText {
  std::string text;
  std::vector<std::string> notes;
};

/// A kind of file that can be imported: one row.
struct ImportKind {
  std::string name;
  std::string summary;
  std::function<ImportedText(const std::string& text, const std::string& file, const comm::FabricSpec& like)> run;
};

ImportedText fabric_text(const comm::Imported& imported) {
  comm::build_topology(imported.spec);  // what is written can be used
  return {comm::imported_yaml(imported), imported.notes};
}

ImportedText nccl_xml(const std::string& text, const std::string& file, const comm::FabricSpec& like) {
  const comm::XmlElement element = comm::parse_xml(text, file);
  if (element.name == "system") return fabric_text(comm::fabric_from_nccl_xml(element, file, like));
  const comm::NcclGraphElement g = comm::graph_element(element, file);
  return {fmt::format(
              "# graph file: pattern {}, types {} and {}\nranks: 8\nchannels: {}\nchannel_gb_s: {{value: {}, source: "
              "\"imported from {}\"}}\n",
              g.pattern, g.type_intra, g.type_inter, g.channels, g.speed_intra, file),
          {"one entry of nccl.graphs; the number of ranks is not in the file: set it"}};
}

ImportedText nccl_tests(const std::string& text, const std::string& file) {
  const comm::NcclTestTable table = comm::parse_nccl_tests(text, file);
  ImportedText out{"bytes,nccl_us\n", table.notes};
  for (const comm::NcclTestRow& row : table.rows)
    out.text += fmt::format("{},{:.6g}\n", row.bytes, row.out_of_place.seconds * 1e6);
  out.notes.push_back(table.ranks ? fmt::format("{} ranks, by bus over algorithm bandwidth", *table.ranks)
                                  : "the number of ranks does not follow from the bandwidths");
  return out;
}

const std::vector<ImportKind>& kinds() {
  using comm::FabricSpec;
  static const std::vector<ImportKind> rows{
      {"nvidia-smi-topo", "the matrix of nvidia-smi topo -m: a fabric file",
       [](const std::string& text, const std::string& file, const FabricSpec& like) {
         return fabric_text(comm::fabric_from_smi(comm::parse_smi_topo(text, file), like));
       }},
      {"nccl-topo-xml", "NCCL's topology dump: a fabric file; a graph file: an entry of nccl.graphs", nccl_xml},
      {"p2p-matrix", "bandwidths of all pairs (D\\D layout): a fabric file",
       [](const std::string& text, const std::string& file, const FabricSpec& like) {
         return fabric_text(comm::fabric_from_p2p(comm::parse_p2p_matrix(text, file), like));
       }},
      {"nccl-tests", "the output of all_reduce_perf: a measured table",
       [](const std::string& text, const std::string& file, const FabricSpec&) { return nccl_tests(text, file); }},
  };
  return rows;
}

void run_import(const ImportCommand& options) {
  const ConfigLibrary library = ConfigLibrary::installed();
  std::vector<std::string> names;
  for (const ImportKind& kind : kinds()) {
    names.push_back(kind.name);
    if (kind.name != options.kind) continue;
    const comm::FabricSpec like = fabric_argument(options.like, {}, library).spec;
    const ImportedText out = kind.run(yaml::read_text(options.file), options.file, like);
    for (const std::string& note : out.notes) say("note: " + note);
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
  for (const ImportKind& kind : kinds()) kinds_text += fmt::format("{}{}", kinds_text.empty() ? "" : ", ", kind.name);
  command->add_option("kind", options->kind, kinds_text)->required();
  command->add_option("file", options->file, "the file to import")->required();
  command->add_option("--like", options->like, "fabric of similar GPUs, for what the file does not say")
      ->capture_default_str();
  add_common(*command, options->common, "specstep import nvidia-smi-topo topo.txt > my-fabric.yaml");
  command->callback([options] { run_import(*options); });
}

}  // namespace specstep
