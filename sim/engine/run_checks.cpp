#include "sim/engine/run_checks.h"

#include "model/base/formatted.h"

namespace specstep {

namespace {

/// A cycle that drafts chains only has no passes for a tree.
void check_tree(const RunConfig& config, Checker& c) {
  const CycleRules rules = cycle_rules(config.engine, true);
  if (!config.speculative() || !config.speculation.tree || rules == CycleRules::sglang_v1) return;
  c.fail(
      "speculation.tree",
      formatted("{} ({}) drafts chains only", name_of(rules),
                config.engine.cycle ? "engine.cycle" : "the cycle of engine.preset " + name_of(config.engine.preset)),
      "speculation.draft_length, or a cycle with trees: sglang_v1 (engine.cycle=sglang-v1, or engine.preset sglang "
      "without a cycle)");
}

/// Kernels for latent caches do not attend key and value heads.
void check_attention(const RunConfig& config, Checker& c) {
  const EngineSpec& e = config.engine;
  const std::optional<std::string> name = attention_backend(e.preset, e.attention_backend);
  if (!name || !attends_mla_only(*name) || config.stack.attention.kind == AttentionKind::mla) return;
  std::vector<std::string> others;
  for (const std::string& other : attention_backends(e.preset))
    if (!attends_mla_only(other)) others.push_back(other);
  c.fail("engine.attention_backend",
         formatted("{} attends latent caches (mla) alone, {} has {} heads", *name, config.stack.name,
                   name_of(config.stack.attention.kind)),
         one_of(others));
}

}  // namespace

void check_engine(const RunConfig& config, Checker& c) {
  check_tree(config, c);
  check_attention(config, c);
}

}  // namespace specstep
