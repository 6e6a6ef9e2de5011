#include "sim/engine/phase.h"

#include <algorithm>
#include <array>

namespace specstep {

namespace {

PassSteps steps_of(const Plan& plan, const std::vector<StepTime>& spans) {
  PassSteps out;
  if (spans.size() != plan.steps.size()) return out;  // not traced
  out.order.reserve(spans.size());
  std::array<std::vector<std::uint32_t>, static_cast<std::size_t>(StepKind::sample) + 1> rows_of;  // by kind
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Step& step = plan.steps[i];
    std::vector<std::uint32_t>& alike = rows_of[static_cast<std::size_t>(step.kind)];
    // From the newest on: most steps are those of the layer before.
    const auto found =
        std::find_if(alike.rbegin(), alike.rend(), [&](std::uint32_t r) { return out.rows[r].op == step.op; });
    const std::uint32_t at = found == alike.rend() ? static_cast<std::uint32_t>(out.rows.size()) : *found;
    if (found == alike.rend()) {
      alike.push_back(at);
      out.rows.push_back({.kind = step.kind,
                          .op = step.op,
                          .part = part_of(step),
                          .provenance = spans[i].provenance,
                          .extrapolated = spans[i].extrapolated});
    }
    StepRow& row = out.rows[at];
    ++row.count;
    row.seconds += spans[i].seconds;
    row.cost += cost_of(step.op);
    out.order.push_back({step.layer, at, spans[i].seconds});
  }
  return out;
}

}  // namespace

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
  out.steps = steps_of(plan, timeline.spans);
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
