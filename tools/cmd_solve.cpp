// specstep solve: from which acceptance on speculation pays, and what decides it.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/number_list.h"
#include "sim/solve/solve.h"
#include "tools/cli.h"
#include "tools/located.h"

namespace specstep {

namespace {

struct SolveCommand {
  CommonOptions common;
  std::string config;
  std::string batches = "1:128:x2";
  std::string contexts = "8192,32768,131072";
  std::string draft_lengths = "1:8";
};

void run_solve(const SolveCommand& command) {
  const SolveOptions options{parse_number_list("--batches", command.batches, {.min = 1, .max = 1e6}),
                             parse_number_list("--contexts", command.contexts, {.min = 1, .max = 1e8}),
                             parse_number_list("--draft-lengths", command.draft_lengths, {.min = 1, .max = 128})};
  const ConfigLibrary library = ConfigLibrary::installed();
  Issues faults;
  Sources sources;
  const yaml::Node root = run_tree(command.config, command.common, library, faults);
  const auto config = read_config<RunConfig>(root, read_options(command.common, library), &sources, std::move(faults));
  check_outputs(command.common);
  const SolveResult result = located(sources, root.at, [&] { return solve(config, options); });
  deliver(command.common, {to_text(result), [&] { return to_json(result); }, [&] { return to_csv(result); }});
}

}  // namespace

void add_solve(CLI::App& app) {
  auto options = std::make_shared<SolveCommand>();
  CLI::App* command = app.add_subcommand(
      "solve", "break-even acceptance, best draft length, allreduce times that turn the answer, sensitivities");
  command->add_option("config", options->config, "a run file, or the name of an installed one")->required();
  command->add_option("--batches", options->batches, "of the tables: a,b,c or a:b or a:b:step or a:b:x2")
      ->capture_default_str();
  command->add_option("--contexts", options->contexts, "tokens in the cache, beside those of the run")
      ->capture_default_str();
  command->add_option("--draft-lengths", options->draft_lengths, "chains to choose from")->capture_default_str();
  add_common(*command, options->common, "specstep solve seed/eagle3 --batches 1:64:x2 --set comm.backend=pull1");
  command->callback([options] { run_solve(*options); });
}

}  // namespace specstep
