#include "sim/engine/serving.h"

#include <algorithm>

#include "model/base/formatted.h"
#include "model/base/units.h"
#include "model/build_plan.h"
#include "sim/engine/launch.h"

namespace specstep {

namespace {

double all_weights(const RunConfig& config) {
  double bytes = weight_memory(config.stack, config.parallel);
  if (config.drafts_with_model()) bytes += weight_memory(*config.draft, config.parallel);
  return bytes;
}

void put(RunResult& r, const std::string& name, double value) {
  r.metrics[name] = {value, {value}, value, value, "none: counted, not measured"};
}

void memory(RunResult& r) {
  if (!r.memory) return put(r, "memory.weights_gib", all_weights(r.config) / gib);
  const MemoryBudget& b = *r.memory;
  put(r, "memory.weights_gib", (b.weights + b.draft_weights) / gib);
  put(r, "memory.kv_gib", b.kv / gib);
  put(r, "memory.kv_tokens", static_cast<double>(b.kv_tokens));
  put(r, "memory.comm_gib", b.comm_bytes() / gib);
  put(r, "memory.graph_gib", b.graphs / gib);
  put(r, "graph.capture_s", capture_estimate(r.config).seconds);
  r.notes.insert(r.notes.end(), b.warnings.begin(), b.warnings.end());
}

/// Rows that a captured size has beyond those of the batch.
void note_padding(RunResult& r, PassKind kind, std::int64_t padded) {
  const std::int64_t batch = r.config.workload.batch;
  if (padded > batch && r.memory)
    r.notes.push_back(
        formatted("{} pads {} sequence{} to the captured {}: rows of padding go through every matrix and "
                  "collective, read no cache and meet one token's experts",
                  name_of(kind), batch, batch == 1 ? "" : "s", grouped(padded)));
}

/// Passes that a reader may believe to be captured, and what their sizes add.
void note_launch(RunResult& r, PassKind kind) {
  const LaunchChoice choice = choose_launch(r.config, kind, r.config.workload.batch);
  note_padding(r, kind, choice.padded_batch);
  if (choice.launch == Launch::captured) return;
  if (choice.beyond)
    r.notes.push_back(formatted("{} runs without a graph, eagerly, at batch {}: {}", name_of(kind),
                                r.config.workload.batch, choice.why));
  else if (choice.launch == Launch::eager)
    r.notes.push_back(formatted("{} runs eagerly: {}", name_of(kind), choice.why));
  else
    r.notes.push_back(formatted("{} runs in pieces{}: {}", name_of(kind),
                                r.memory ? "" : " in the engine, and here kernel by kernel", choice.why));
}

/// Eager prices are floors: what an engine does for an operator beside the driver's launch is not in them.
void note_eager(RunResult& r) {
  const bool eager = std::any_of(r.phases.begin(), r.phases.end(), [](const PhaseResult& p) {
    return p.kind != PassKind::prefill && p.launch == Launch::eager;
  });
  if (!eager || !r.memory) return;
  r.notes.push_back(
      formatted("eager passes are a lower bound: {} us for each kernel that the driver launches "
                "(machine.gpu.eager_launch_us), nothing for what the engine itself does for an operator, "
                "which can be several times that",
                r.config.machine.gpu.eager_launch_us.value));
}

}  // namespace

MemoryBudget require_start(const RunConfig& config) {
  MemoryBudget budget = memory_budget(config);
  const std::string refusal = start_refusal(config, budget);
  if (!refusal.empty()) throw Error(refusal);
  return budget;
}

void require_weights_fit(const RunConfig& config) {
  const double weights = all_weights(config);
  const double have = config.machine.gpu.memory_gib.value;
  if (weights / gib > have)
    throw Error(
        formatted("Not enough memory: the weights need {:.1f} GiB on each GPU, which has {:.1f} GiB; more ranks "
                  "(parallel.tensor), "
                  "smaller weight formats or a larger GPU would fit",
                  weights / gib, have));
}

void add_serving(RunResult& r) {
  memory(r);
  const RunConfig& c = r.config;
  const PassKind main = c.speculative() ? PassKind::verify : PassKind::decode;
  const CaptureList list = captured_sizes(c, c.speculative());
  put(r, "graph.count", static_cast<double>(list.sizes.size()));
  put(r, "graph.padded_batch", static_cast<double>(choose_launch(c, main, c.workload.batch).padded_batch));
  const std::int64_t sequences = list.in_tokens ? list.largest() / tokens_each(c, main) : list.largest();
  if (c.engine.max_sequences > sequences && !list.sizes.empty())
    r.notes.push_back(
        formatted("engine.max_sequences {} is above the {} that run with a graph: beyond these steps are eager",
                  c.engine.max_sequences, sequences));
  if (const std::int64_t most = c.engine.max_sequences; most > 0 && c.workload.batch > most)
    r.notes.push_back(
        formatted("engine.max_sequences {}: the engine would run {} of the {} sequences at once and let "
                  "the others wait; figures are those of {} at once",
                  most, most, c.workload.batch, c.workload.batch));
  if (main != PassKind::decode) note_launch(r, PassKind::decode);
  note_launch(r, main);
  if (c.drafts_with_model()) {
    if (c.speculation.depth() > 1) note_launch(r, PassKind::draft);
    note_launch(r, PassKind::extend);
  }
  note_eager(r);
}

}  // namespace specstep
