// Attention kernels by the names that serving engines give them, and what vLLM's can do inside a CUDA graph.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/engine/preset.h"

namespace specstep {

/// What an attention backend of vLLM can do inside a graph; each level includes those before it. Its names: NEVER,
/// UNIFORM_SINGLE_TOKEN_DECODE, UNIFORM_BATCH (K + 1 tokens of each sequence), ALWAYS.
enum class GraphSupport { never, single_token_decode, uniform_batch, always };
template <>
struct EnumNames<GraphSupport> {
  static std::vector<std::string> names() { return {"never", "single_token_decode", "uniform_batch", "always"}; }
};

struct AttentionRow {
  std::string backend;
  GraphSupport support = GraphSupport::never;
  std::string source;
};
const std::vector<AttentionRow>& attention_rows();
/// Of a backend of vLLM in any spelling; without a name uniform batches are taken to be supported.
GraphSupport support_of(const std::string& backend);

/// The backends of an engine, by the names used here.
const std::vector<std::string>& attention_backends(EnginePreset preset);
/// That name for any spelling an engine takes: capitals and - for _ count as the same, vLLM's endings _ATTN and
/// _VLLM_V1 and names that were given up are known. Nothing for what the engine does not have.
std::optional<std::string> attention_backend(EnginePreset preset, const std::string& spelled);
/// Whether a backend, by that name, attends latent caches (mla) alone.
bool attends_mla_only(const std::string& name);

}  // namespace specstep
