// Config and kind of pass to a plan.
#include "sim/plan_of.h"

#include "sim/engine/engine.h"
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
  const bool wide = kind == PassKind::verify || kind == PassKind::extend;
  const std::int64_t tokens = wide                        ? config.speculation.verify_tokens()
                              : kind == PassKind::prefill ? config.workload.prompt_tokens
                              : draft_pass                ? config.speculation.draft_width()
                                                          : 1;
  const LaunchChoice choice = choose_launch(config.engine, kind, config.workload.batch, config.speculative());
  const std::int64_t context = kind == PassKind::prefill ? 0 : config.workload.prompt_tokens;
  const PassShape shape{kind, choice.padded_batch, tokens, context};
  const PlanOptions options = plan_options(config);
  return draft_pass ? build_draft_plan(*config.draft, config.parallel, shape, options)
                    : build_plan(config.stack, config.parallel, shape, options);
}

}  // namespace specstep
