// Config and kind of pass to a plan.
#include "sim/plan_of.h"

#include "sim/engine/launch.h"
#include "sim/plan_options.h"

namespace specstep {

Plan plan_of(const RunConfig& config, PassKind kind) {
  const bool draft_pass = kind == PassKind::draft || kind == PassKind::extend;
  const auto refuse = [&](const std::string& what, const std::string& allowed) {
    throw InputError(Issue{{config.name.empty() ? "this run" : config.name}, "--pass", what, allowed});
  };
  if ((draft_pass || kind == PassKind::verify) && !config.speculative())
    refuse("this run does not speculate, so it has no " + name_of(kind) + " pass",
           "decode or prefill, or set speculation.method");
  if (draft_pass && !config.drafts_with_model())
    refuse("method " + name_of(config.speculation.method) + " runs no draft model", "verify, decode or prefill");
  const LaunchChoice choice = choose_launch(config, kind, config.workload.batch);
  const std::int64_t context = kind == PassKind::prefill ? 0 : config.workload.prompt_tokens;
  PassShape shape{kind, choice.padded_batch, tokens_each(config, kind), context};
  shape.padding = choice.padded_batch - config.workload.batch;
  const PlanOptions options = plan_options(config);
  return draft_pass ? build_draft_plan(*config.draft, config.parallel, shape, options)
                    : build_plan(config.stack, config.parallel, shape, options);
}

}  // namespace specstep
