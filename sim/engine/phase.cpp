#include "sim/engine/phase.h"

namespace specstep {

PhaseResult phase_of(const PreparedPlan& prepared, const Timeline& timeline, std::int64_t batch) {
  const Plan& plan = prepared.plan();
  PhaseResult out;
  out.kind = plan.shape.kind;
  out.launch = prepared.launch();
  out.seconds = timeline.seconds;
  out.tokens = batch * plan.shape.tokens_each;
  out.parts = timeline.parts;
  out.cost = plan.total();
  out.in_situ_seconds = timeline.in_situ_seconds;
  out.wait_seconds = timeline.wait_seconds;
  out.host_seconds = timeline.host_seconds;
  out.experts_met = timeline.experts_met;
  for (const Step& step : plan.steps) {
    const auto* experts = std::get_if<GroupedGemm>(&step.op);
    if (!experts) continue;
    out.local_experts = experts->experts;
    out.experts_expected = experts->experts_met;
    break;
  }
  double measured = 0;  // sum over in-layer allreduces, which differ where ranks wait for each other
  for (std::size_t i = 0; i < plan.steps.size(); ++i) {
    const auto* reduce = allreduce_of(plan.steps[i].op);
    if (!reduce) continue;
    ++out.allreduces;
    if (!reduce->in_layer) continue;
    ++out.allreduces_in_layer;
    out.allreduce_bytes = reduce->bytes();
    if (i < timeline.spans.size()) {
      const StepTime& span = timeline.spans[i];
      if (span.provenance == comm::Provenance::measured) measured += span.seconds;
      out.allreduce_seconds = measured > 0 ? measured / static_cast<double>(out.allreduces_in_layer) : span.seconds;
    }
    if (timeline.allreduce_seconds > 0) out.allreduce_seconds = timeline.allreduce_seconds;
  }
  return out;
}

}  // namespace specstep
