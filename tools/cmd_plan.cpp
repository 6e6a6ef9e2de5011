// specstep plan: the steps of one pass.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "model/build_plan.h"
#include "sim/plan_of.h"
#include "tools/cli.h"

namespace specstep {

namespace {
struct PlanCommand {
  CommonOptions common;
  std::string config;
  std::string pass = "decode";
  bool every_layer = false;
};

void plan(const PlanCommand& options) {
  const ConfigLibrary library = ConfigLibrary::installed();
  Issues faults;
  const yaml::Node root = run_tree(options.config, options.common, library, faults);
  const auto config = read_config<RunConfig>(root, read_options(options.common, library), nullptr, std::move(faults));
  check_outputs(options.common);
  const std::vector<std::string> names = EnumNames<PassKind>::names();
  const auto kind = static_cast<PassKind>(std::find(names.begin(), names.end(), options.pass) - names.begin());
  const Plan built = plan_of(config, kind);
  deliver(options.common,
          {plan_text(built, options.every_layer), [&] { return plan_json(built); }, [&] { return plan_csv(built); }});
}
}  // namespace

void add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanCommand>();
  CLI::App* command = app.add_subcommand("plan", "the steps of a pass, with shapes, bytes, flops and counts");
  command->add_option("config", options->config, "a run file, or the name of an installed one")->required();
  command->add_option("--pass", options->pass, "prefill, decode, verify, draft or extend")
      ->check(CLI::IsMember(EnumNames<PassKind>::names()))
      ->capture_default_str();
  command->add_flag("--every-layer", options->every_layer, "print equal layers one by one");
  add_common(*command, options->common, "specstep plan seed/eagle3 --pass verify");
  command->callback([options] { plan(*options); });
}

}  // namespace specstep
