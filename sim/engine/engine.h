// The serving engine: whose rules, which version, and what a config says otherwise.
#pragma once

#include <cstdint>
#include <string>

#include "sim/engine/graphs.h"
#include "sim/engine/memory.h"
#include "sim/engine/phases.h"
#include "sim/engine/preset.h"

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
};

void describe(Fields& f, EngineSpec& e);
void check(const EngineSpec& e, Checker& c);

}  // namespace specstep
