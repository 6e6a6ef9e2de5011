// specstep run: a config or a study to tok/s with the breakdown.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "sim/engine/benchmark.h"
#include "sim/study.h"
#include "tools/cli.h"
#include "tools/located.h"
#include "tools/progress_line.h"

namespace specstep {

namespace {
struct RunOptions {
  CommonOptions common;
  std::string config = "seed-study";
  std::string executor;
  std::optional<std::int64_t> seed;
};

/// An option that stands for a key. Given beside that key, one of the two would be ignored.
void stand_for(CommonOptions& common, const char* option, const std::string& key, const std::string& value) {
  for (const std::string& set : common.sets)
    if (set.starts_with(key + "="))
      throw InputError(Issue{{option}, "", "is given beside --set " + set, "one of them"});
  common.sets.push_back(key + "=" + value);
}

void refuse_for_study(const RunOptions& options) {
  const auto refuse = [](const char* option, const char* what) {
    throw InputError(Issue{{option}, "", std::string("the file is a study, whose figures are ") + what, "a run"});
  };
  if (!options.executor.empty()) refuse("--executor", "priced");
  if (options.seed) refuse("--seed", "priced, with nothing random in them");
}

/// `result`, of a run or a study, outlives it.
template <class Result>
Output output_of(const Result& result) {
  return {.text = to_text(result),
          .json = [&] { return to_json(result); },
          .csv = [&] { return to_csv(result); },
          .timeline = [&] { return to_timeline(result); }};
}

void run(const RunOptions& options) {
  const ConfigLibrary library = ConfigLibrary::installed();
  CommonOptions common = options.common;
  Issues faults;
  Sources sources;
  const yaml::Node root = load_with_base(config_path(options.config, "runs", library), &faults, common.inputs.get());
  if (is_study(root)) {
    refuse_for_study(options);
    const ReadStudy study = read_study(root, read_options(common, library), &sources, std::move(faults));
    check_outputs(common);
    const StudyResult result = located(sources, root.at, [&] { return run_study(study); });
    return deliver(common, output_of(result));
  }
  if (!options.executor.empty()) stand_for(common, "--executor", "measure.executor", options.executor);
  if (options.seed) stand_for(common, "--seed", "measure.host.seed", std::to_string(*options.seed));
  const auto config = read_config<RunConfig>(root, read_options(common, library), &sources, std::move(faults));
  if (options.seed && config.measure.executor == ExecutorKind::cost)
    throw InputError(Issue{{"--seed"}, "", "the cost executor has nothing random", "--executor host"});
  check_outputs(common);
  std::unique_ptr<Executor> executor;
  const RunResult result = located(sources, root.at, [&] {
    executor = make_executor(config);
    const ProgressLine line(common.quiet || !executor->reports());
    return run_benchmark(config, *executor, [&](const std::string& text) { line.show(text); });
  });
  if (!executor->reports()) return;
  deliver(common, output_of(result));
}
}  // namespace

void add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "baseline decode and speculative tok/s, with the breakdown");
  command->add_option("config", options->config, "a run or study file, or the name of an installed one")
      ->capture_default_str();
  command->add_option("--executor", options->executor, "cost, host or cuda; what measure.executor says otherwise");
  bounded(
      command->add_option("--seed", options->seed, "seed of everything random; what measure.host.seed says otherwise"),
      0, static_cast<double>(most_seed));
  command->add_option(
      "--timeline", options->common.timeline,
      "write the steps of each pass as a Chrome trace, which Perfetto opens, to this file; - for stdout "
      "instead of the text");
  add_common(*command, options->common,
             "specstep run seed/eagle3 --set workload.batch=8 --json result.json --timeline trace.json");
  command->callback([options] { run(*options); });
}

}  // namespace specstep
