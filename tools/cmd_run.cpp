// specstep run: a config or a study to tok/s with the breakdown.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/engine/benchmark.h"
#include "sim/study.h"
#include "tools/cli.h"

namespace specstep {

namespace {
struct RunOptions {
  CommonOptions common;
  std::string config = "seed-study";
};

void run(const RunOptions& options) {
  const ConfigLibrary library = ConfigLibrary::installed();
  const ReadOptions read = read_options(options.common, library);
  Issues faults;
  const yaml::Node root = load_with_base(config_path(options.config, "runs", library), &faults);
  if (is_study(root)) {
    const StudyResult study = run_study(read_config<StudyConfig>(root, read, nullptr, std::move(faults)));
    return deliver(options.common, {to_text(study), [&] { return to_json(study); }, [&] { return to_csv(study); }});
  }
  const auto config = read_config<RunConfig>(root, read, nullptr, std::move(faults));
  const RunResult result = run_benchmark(config, *make_executor(config));
  deliver(options.common, {to_text(result), [&] { return to_json(result); }, [&] { return to_csv(result); }});
}
}  // namespace

void add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "baseline decode and speculative tok/s, with the breakdown");
  command->add_option("config", options->config, "a run or study file, or the name of an installed one")
      ->capture_default_str();
  add_common(*command, options->common, "specstep run seed/eagle3 --set workload.batch=8 --json result.json");
  command->callback([options] { run(*options); });
}

}  // namespace specstep
