// The serving engine: whose rules, which version, and what a config says otherwise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/engine/cycle.h"
#include "sim/engine/graphs.h"
#include "sim/engine/kernels.h"
#include "sim/engine/memory.h"
#include "sim/engine/phases.h"
#include "sim/engine/preset.h"
#include "sim/engine/skew.h"

namespace specstep {

struct EngineSpec {
  std::string name;    // of a profile
  std::string source;  // likewise
  EnginePreset preset = EnginePreset::sglang;
  std::string version;             // rules differ by version; empty: the newest known
  std::string attention_backend;   // decides what can be captured; empty: not known
  std::int64_t max_sequences = 0;  // that run at once; 0: the engine's default
  GraphSpec graph;
  MemorySpec memory;
  PhaseLaunch phases;
  EngineKernels kernels;
  std::optional<CycleSpec> cycle;  // without one: rules by preset and version, no host work
  std::optional<SkewSpec> skew;    // without one: ranks arrive together

  EngineHostSpec host() const { return cycle ? cycle->host : EngineHostSpec{}; }
};

/// Whose cycle it runs: engine.cycle.rules, else by preset and version. `tree`: SGLang drafts trees only in V1.
CycleRules cycle_rules(const EngineSpec& engine, bool tree);

void describe(Fields& f, EngineSpec& e);
void check(const EngineSpec& e, Checker& c);

}  // namespace specstep
