#include "sim/solve/prices.h"

#include <algorithm>

#include "model/base/units.h"
#include "sim/engine/benchmark.h"

namespace specstep::solving {

namespace {
// The passes of the run itself come first and are priced for every variant; those of a grid are priced once.
constexpr std::size_t most_plans = 16;
}  // namespace

Plan PlanShelf::plan(const RunConfig& config, const PassRequest& request) {
  // Whether a norm is fused may hang on prices, which differ between the runs that share a shelf.
  if (config.comm.fusion != CommFusion::none) return plan_of(config, request);
  for (const auto& [known, plan] : plans_)
    if (known.shape == request.shape && known.draft_model == request.draft_model) return plan;
  Plan plan = plan_of(config, request);
  if (plans_.size() < most_plans) plans_.emplace_back(request, plan);
  return plan;
}

const PhaseResult* Point::phase(PassKind kind) const {
  const auto found = std::find_if(phases.begin(), phases.end(), [kind](const auto& p) { return p.kind == kind; });
  return found == phases.end() ? nullptr : &*found;
}

PassOutcome Prices::carry_out(const PassRequest& request) {
  const std::int64_t batch = asked_->workload.batch;
  for (const Known& known : known_)
    if (known.batch == batch && known.request == request) return known.outcome;
  const auto prepared = executor_.prepare(shelf_.plan(*asked_, request), request.launch);
  known_.push_back({request, batch, specstep::carry_out(*asked_, *prepared, false)});
  known_.back().outcome.phase.steps = {};  // no question asks for them, and every answer is a copy
  return known_.back().outcome;
}

Point Prices::at(RunConfig config, std::int64_t context) {
  config.workload.prompt_tokens = context;
  config.workload.output_tokens = 1;  // the context does not grow
  asked_ = &config;
  RunResult result = run_steps(config, *this);
  asked_ = nullptr;
  Point point;
  point.step = result.metrics.at("decode.step_ms").value * ms;
  if (config.speculative()) {
    point.cycle = result.metrics.at("speculative.cycle_ms").value * ms;
    point.accept_length = result.metrics.at("speculative.accept_length").value;
  }
  point.phases = std::move(result.phases);
  return point;
}

bool told_at_any_length(const AcceptanceSpec& a) { return a.rate || a.decay || a.dataset; }

RunConfig with(RunConfig config, std::int64_t batch, std::int64_t draft_length) {
  config.workload.batch = batch;
  SpeculationSpec& s = config.speculation;
  if (!s.acceptance) {
    s.acceptance = AcceptanceSpec{};
    s.acceptance->rate = 0;
  }
  if (s.tree || draft_length == s.draft_length) return config;
  AcceptanceSpec extended;
  extended.survival = told_at_any_length(*s.acceptance)
                          ? survival_of(*s.acceptance, draft_length)
                          : acceptance_of(*s.acceptance, s.draft_length).at(draft_length).survival();
  s.acceptance = extended;
  s.draft_length = draft_length;
  return config;
}

std::optional<double> rate_for(double accept_length, std::int64_t drafts) {
  if (accept_length > static_cast<double>(drafts + 1)) return std::nullopt;
  if (accept_length <= 1) return 0;
  AcceptanceSpec spec;
  spec.length = accept_length;
  return survival_of(spec, drafts).front();
}

}  // namespace specstep::solving
