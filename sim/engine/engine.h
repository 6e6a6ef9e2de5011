// The serving engine: which passes run as CUDA graphs, and at which captured batch size.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/describe.h"
#include "model/pass.h"
#include "sim/engine/cycle.h"
#include "sim/engine/kernels.h"
#include "sim/engine/skew.h"

namespace specstep {

enum class EnginePreset { sglang };
enum class Launch { captured, eager };

template <>
struct EnumNames<EnginePreset> {
  static std::vector<std::string> names() { return {"sglang"}; }
};
template <>
struct EnumNames<Launch> {
  static std::vector<std::string> names() { return {"captured", "eager"}; }
};

struct GraphSpec {
  std::int64_t max_batch = 512;  // largest captured number of sequences
};

/// How each kind of pass is launched when its batch is within the captured sizes. Beyond them everything is eager.
struct PhaseLaunch {
  Launch prefill = Launch::eager;
  Launch decode = Launch::captured;
  Launch verify = Launch::captured;
  Launch draft = Launch::captured;
  Launch extend = Launch::captured;
  Launch of(PassKind kind) const;
};

struct EngineSpec {
  std::string name;    // of a profile
  std::string source;  // likewise
  EnginePreset preset = EnginePreset::sglang;
  GraphSpec graph;
  PhaseLaunch phases;
  EngineKernels kernels;
  CycleSpec cycle;
  SkewSpec skew;
};

/// Batch sizes an engine captures. `speculative`: with a draft, which uses a finer list.
/// SGLang: server_args of early 2026; no speculation [1,2,4,8,12] + 16..256 step 8 + 272..511 step 16 + 512.. step 32,
/// speculation 1..8 + 10..32 step 2 + 40..64 step 4 + 72..256 step 8 + 272.. step 16; only sizes up to max_batch.
std::vector<std::int64_t> captured_batches(const EngineSpec& engine, bool speculative);

/// How a pass of `batch` sequences runs: the captured size it is padded to, or eagerly as it is.
struct LaunchChoice {
  Launch launch = Launch::eager;
  std::int64_t padded_batch = 1;
};
LaunchChoice choose_launch(const EngineSpec& engine, PassKind kind, std::int64_t batch, bool speculative);

/// Whose cycle it runs: engine.cycle.rules, else by preset. `tree`: SGLang drafts trees only in V1.
CycleRules cycle_rules(const EngineSpec& engine, bool tree);

void describe(Fields& f, GraphSpec& g);
void describe(Fields& f, PhaseLaunch& p);
void describe(Fields& f, EngineSpec& e);

}  // namespace specstep
