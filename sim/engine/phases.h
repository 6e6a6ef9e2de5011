// Which kinds of pass an engine runs as CUDA graphs: a table by engine, version and attention backend.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/pass.h"
#include "sim/engine/attention_backends.h"
#include "sim/engine/graphs.h"

namespace specstep {

/// What the user says of a kind of pass; nothing: the engine's table decides.
struct PhaseLaunch {
  std::optional<Launch> prefill, decode, verify, draft, extend;
  const std::optional<Launch>& of(PassKind kind) const;
};

/// A rule of SGLang or TensorRT-LLM. The first row that fits decides.
struct PhaseRow {
  EnginePreset preset = EnginePreset::sglang;
  std::string since;
  std::string attention_backend;  // empty: any
  PassKind kind = PassKind::decode;
  Launch launch = Launch::eager;
  std::string source;
};
const std::vector<PhaseRow>& phase_rows();

/// How a pass within the captured sizes is launched, and why.
struct PhaseChoice {
  Launch launch = Launch::eager;
  std::string why;
};

struct PhaseQuery {
  EnginePreset preset = EnginePreset::sglang;
  std::string version;
  std::string attention_backend;
  GraphMode mode = GraphMode::full_decode_only;
  PassKind kind = PassKind::decode;
};
/// The engine's own choice. Without a backend vLLM's is taken to support uniform batches.
PhaseChoice engine_launch(const PhaseQuery& query);

void describe(Fields& f, PhaseLaunch& p);

}  // namespace specstep
