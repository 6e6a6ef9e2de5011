// Reading of engines, and the faults that single keys do not show.
#include "sim/engine/engine.h"

#include <algorithm>

#include "model/base/formatted.h"

namespace specstep {

CycleRules cycle_rules(const EngineSpec& engine, bool tree) {
  if (engine.cycle) return engine.cycle->rules;
  switch (engine.preset) {
    case EnginePreset::vllm:
      return CycleRules::vllm;
    case EnginePreset::trtllm:
      return CycleRules::tensorrt_llm;
    case EnginePreset::sglang:
      break;
  }
  // V2 drafts chains only; it was opt-in in early 2026 (0.5.9) and is the default since.
  return tree || !is_since(engine.version, "0.5.10") ? CycleRules::sglang_v1 : CycleRules::sglang_v2;
}

void describe(Fields& f, EngineSpec& e) {
  f.optional("name", e.name, "name of the profile");
  f.optional("source", e.source, "where the profile comes from");
  f.optional("preset", e.preset, "whose rules to follow");
  f.optional("version", e.version, "of the engine, as in 0.5.9: rules differ; left out: the newest rules known");
  f.optional(
      "attention_backend", e.attention_backend,
      "attention kernels, as the engine names them (triton, flashinfer, flashmla, ...): they decide which passes "
      "can be captured");
  f.optional("max_sequences", e.max_sequences,
             "sequences that run at once (max_running_requests, max_num_seqs); 0: the engine's default",
             {.min = 0, .max = 1e6});
  f.optional("graph", e.graph, "CUDA graphs");
  f.optional("memory", e.memory, "how GPU memory is shared out");
  f.optional("phases", e.phases, "which kinds of pass are captured, where it is not as the engine's table says");
  f.optional("kernels", e.kernels, "kernels that differ from those the GPU's file was fitted to");
  f.part("cycle", e.cycle, "cycles",
         "passes of a round of speculation, and host work between them; left out: by preset and version, none", false);
  f.part("skew", e.skew, "skews", "how late ranks arrive at allreduces; left out: together", false);
}

void check(const EngineSpec& e, Checker& c) {
  if (!e.version.empty() && !is_version(e.version))
    c.fail("version", formatted("is '{}'", e.version), "numbers with points, as in 0.5.9, or leave it out");
  const std::vector<std::string>& backends = attention_backends(e.preset);
  if (!e.attention_backend.empty() && !attention_backend(e.preset, e.attention_backend))
    c.fail("attention_backend",
           formatted("{} has no '{}'{}", name_of(e.preset), e.attention_backend,
                     did_you_mean(e.attention_backend, backends)),
           one_of(backends));
  const bool vllm = e.preset == EnginePreset::vllm;
  if (vllm && e.graph.max_batch)
    c.fail("graph.max_batch", "has no meaning here",
           "vllm counts tokens: graph.max_tokens; the profile engine=vllm sets neither");
  if (!vllm && e.graph.max_tokens)
    c.fail("graph.max_tokens", "has no meaning here",
           formatted("{0} counts sequences: graph.max_batch; the profile engine={0} sets neither", name_of(e.preset)));
  const MemoryRule rule = memory_rule(e.memory, e.preset, e.version);
  if (e.memory.graph_estimate && rule != MemoryRule::utilisation)
    c.fail("memory.graph_estimate", "has no meaning here",
           "auto: rule " + name_of(rule) + " takes no graphs out of the KV pool, only utilisation (vllm) does");
  const bool known =
      !e.graph.mode || vllm || *e.graph.mode == GraphMode::none || *e.graph.mode == GraphMode::full_decode_only;
  if (!known)
    c.fail("graph.mode", "is " + name_of(*e.graph.mode), name_of(e.preset) + " knows none and full_decode_only");
  if (vllm && e.graph.padding && !*e.graph.padding) c.fail("graph.padding", "is false", "true: vllm always pads");
}

}  // namespace specstep
