// Capture lists and padding.
#include "sim/engine/engine.h"

#include <algorithm>

namespace specstep {

Launch PhaseLaunch::of(PassKind kind) const {
  switch (kind) {
    case PassKind::prefill:
      return prefill;
    case PassKind::decode:
      return decode;
    case PassKind::verify:
      return verify;
    case PassKind::draft:
      return draft;
    case PassKind::extend:
      return extend;
  }
  return Launch::eager;
}

namespace {
void append(std::vector<std::int64_t>& out, std::int64_t from, std::int64_t to, std::int64_t step) {
  for (std::int64_t b = from; b <= to; b += step) out.push_back(b);
}
}  // namespace

std::vector<std::int64_t> captured_batches(const EngineSpec& engine, bool speculative) {
  const std::int64_t most = engine.graph.max_batch;
  std::vector<std::int64_t> out;
  if (speculative) {
    append(out, 1, 8, 1);
    append(out, 10, 32, 2);
    append(out, 40, 64, 4);
    append(out, 72, 256, 8);
    append(out, 272, most, 16);
  } else {
    out = {1, 2, 4, 8, 12};
    append(out, 16, 256, 8);
    append(out, 272, 511, 16);
    append(out, 512, most, 32);
  }
  std::erase_if(out, [most](std::int64_t b) { return b > most; });
  return out;
}

LaunchChoice choose_launch(const EngineSpec& engine, PassKind kind, std::int64_t batch, bool speculative) {
  if (engine.phases.of(kind) == Launch::eager) return {Launch::eager, batch};
  const std::vector<std::int64_t> sizes = captured_batches(engine, speculative);
  const auto next = std::lower_bound(sizes.begin(), sizes.end(), batch);
  if (next == sizes.end()) return {Launch::eager, batch};
  return {Launch::captured, *next};
}

CycleRules cycle_rules(const EngineSpec& engine, bool tree) {
  if (engine.cycle.rules) return *engine.cycle.rules;
  // SGLang's V2 drafts chains only; it is the default since 2026.
  return tree ? CycleRules::sglang_v1 : CycleRules::sglang_v2;
}

void describe(Fields& f, GraphSpec& g) {
  f.optional("max_batch", g.max_batch, "largest batch captured in a CUDA graph (cuda-graph-max-bs)",
             {.min = 1, .max = 65536});
}

void describe(Fields& f, PhaseLaunch& p) {
  f.optional("prefill", p.prefill, "how a prompt pass is launched");
  f.optional("decode", p.decode, "how a plain decode pass is launched");
  f.optional("verify", p.verify, "how a verify pass is launched");
  f.optional("draft", p.draft, "how a draft step is launched");
  f.optional("extend", p.extend, "how the draft's catch-up pass is launched");
}

void describe(Fields& f, EngineSpec& e) {
  f.optional("name", e.name, "name of the profile");
  f.optional("source", e.source, "where the profile comes from");
  f.optional("preset", e.preset, "whose rules to follow");
  f.optional("graph", e.graph, "CUDA graphs");
  f.optional("phases", e.phases, "which kinds of pass are captured");
  f.optional("kernels", e.kernels, "kernels that differ from those the GPU's file was fitted to");
  f.part("cycle", e.cycle, "cycles", "passes of a round of speculation, and host work between them", false);
  f.part("skew", e.skew, "skews", "how late ranks arrive at allreduces; left out: together", false);
}

}  // namespace specstep
