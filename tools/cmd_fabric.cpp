// specstep fabric: what the topology is, what patterns of flows get, and what looks broken.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "comm/import/p2p_matrix.h"
#include "comm/report/fabric_report.h"
#include "model/base/yaml.h"
#include "tools/cli.h"
#include "tools/fabric_argument.h"

namespace specstep {

namespace {

struct FabricCommand {
  CommonOptions common;
  std::string config;
  std::string measured;
};

/// A table of patterns, or a matrix of pairs.
std::vector<comm::MeasuredRate> measured(const std::string& file, const comm::Topology& topology) {
  if (file.empty()) return {};
  const std::string text = yaml::read_text(file);
  if (text.find("D\\D") == std::string::npos) return comm::measured_rates(comm::CsvTable::parse(text, file), topology);
  const comm::P2pMatrix matrix = comm::parse_p2p_matrix(text, file);
  for (const std::string& note : matrix.notes) say("note: " + note);
  if (matrix.size() != comm::gpu_count(topology))
    throw InputError(Issue{{file},
                           "",
                           std::to_string(matrix.size()) + " GPUs in the matrix",
                           std::to_string(comm::gpu_count(topology)) + ", as in the fabric"});
  return comm::matrix_rates(matrix.gb_s);
}

void run_fabric(const FabricCommand& options) {
  const ConfigLibrary library = ConfigLibrary::installed();
  const comm::Topology topology = comm::build_topology(fabric_argument(options.config, options.common, library).spec);
  if (!options.measured.empty()) options.common.inputs->emplace_back(options.measured);
  check_outputs(options.common);
  const auto rates = measured(options.measured, topology);
  deliver(options.common,
          {comm::fabric_report(topology, rates), [&] { return comm::fabric_json(topology, rates); }, {}});
}

}  // namespace

void add_fabric(CLI::App& app) {
  auto options = std::make_shared<FabricCommand>();
  CLI::App* command =
      app.add_subcommand("fabric", "what connects the GPUs, what patterns of flows get, what looks broken");
  command->add_option("config", options->config, "a run, machine or fabric file, or the name of an installed one")
      ->required();
  command->add_option(
      "--measured", options->measured,
      "measured rates: CSV with pattern and write_gbps or read_gbps, or the output of p2pBandwidthLatencyTest");
  add_common(*command, options->common, "specstep fabric asus_dual_turin_collapse --measured flows.csv");
  command->callback([options] { run_fabric(*options); });
}

}  // namespace specstep
