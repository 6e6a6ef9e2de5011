// specstep run: a config or a study to tok/s with the breakdown.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
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
  std::string executor;
};

/// One line of progress that the next one overwrites; silent unless stderr is a terminal.
class ProgressLine {
 public:
  explicit ProgressLine(bool quiet) : shown_(!quiet && isatty(STDERR_FILENO) == 1) {}
  ~ProgressLine() { show(""); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  void show(const std::string& text) const noexcept {
    if (shown_) std::fprintf(stderr, "\r\033[K%s", text.c_str());
  }

 private:
  bool shown_;
};

void run(const RunOptions& options) {
  const ConfigLibrary library = ConfigLibrary::installed();
  CommonOptions common = options.common;
  Issues faults;
  const yaml::Node root = load_with_base(config_path(options.config, "runs", library), &faults);
  const bool study = is_study(root);
  if (!study && !options.executor.empty()) common.sets.push_back("measure.executor=" + options.executor);
  if (!study && common.seed != 0) common.sets.push_back("measure.host.seed=" + std::to_string(common.seed));
  const ReadOptions read = read_options(common, library);
  if (study) {
    if (!options.executor.empty())
      throw InputError({{}, "--executor", "the file is a study, whose figures are priced", "a run"});
    const StudyResult result = run_study(read_config<StudyConfig>(root, read, nullptr, std::move(faults)));
    return deliver(options.common, {to_text(result), [&] { return to_json(result); }, [&] { return to_csv(result); }});
  }
  const auto config = read_config<RunConfig>(root, read, nullptr, std::move(faults));
  const std::unique_ptr<Executor> executor = make_executor(config);
  const RunResult result = [&] {
    const ProgressLine line(options.common.quiet || !executor->reports());
    return run_benchmark(config, *executor, [&](const std::string& text) { line.show(text); });
  }();
  if (!executor->reports()) return;
  deliver(options.common, {to_text(result), [&] { return to_json(result); }, [&] { return to_csv(result); }});
}
}  // namespace

void add_run(CLI::App& app) {
  auto options = std::make_shared<RunOptions>();
  CLI::App* command = app.add_subcommand("run", "baseline decode and speculative tok/s, with the breakdown");
  command->add_option("config", options->config, "a run or study file, or the name of an installed one")
      ->capture_default_str();
  command->add_option("--executor", options->executor, "cost, host or cuda; what measure.executor says otherwise");
  add_common(*command, options->common, "specstep run seed/eagle3 --set workload.batch=8 --json result.json");
  command->callback([options] { run(*options); });
}

}  // namespace specstep
