#include "sim/engine/attention_backends.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace specstep {

const std::vector<AttentionRow>& attention_rows() {
  using enum GraphSupport;
  static const std::string docs =
      "vllm-project/vllm docs/design/cuda_graphs.md, table of attention backends, v0.11 and later, 2025-10";
  static const std::string unlisted = docs + ": backends that it does not list are NEVER";
  static const std::string code = "vllm-project/vllm v1/attention/backends/mla, its metadata builder, 2025-10";
  static const std::vector<AttentionRow> rows{
      {"flash_attn", uniform_batch, docs + " (version 2; version 3 always)"},
      {"flash_attn_3", always, docs},
      {"triton", always, docs},
      {"flashmla", uniform_batch, docs},
      {"flashinfer_mla", uniform_batch, docs},
      {"flashinfer", single_token_decode,
       docs + "; no whole graph of verify passes on sm_120: vllm-project/vllm#47979"},
      {"trtllm", uniform_batch, docs + " (FlashInfer with TensorRT-LLM kernels, sm_100)"},
      {"cutlass_mla", single_token_decode, docs},
      {"triton_mla", never,
       "local-inference-lab/rtx6kpro@e2c2b95 models/kimi-k26-mtp-long-ctx-wip, 2026-04-24: decode and verify ran in "
       "pieces "
       "until the backend was changed"},
      {"flash_attn_mla", uniform_batch, code},
      {"flashmla_sparse", uniform_batch, code},
      {"flashinfer_mla_sparse", uniform_batch, docs + ", later versions"},
      {"flex_attention", never, unlisted},
      {"tree_attn", never, unlisted},
      {"xformers", never, unlisted},
      {"torch_sdpa", never, unlisted},
  };
  return rows;
}

namespace {

/// sgl-project/sglang server_args, ATTENTION_BACKEND_CHOICES, 2026: those of NVIDIA GPUs.
const std::vector<std::string>& sglang_names() {
  static const std::vector<std::string> names{"triton",
                                              "torch_native",
                                              "flex_attention",
                                              "dsa",
                                              "dsv4",
                                              "cutlass_mla",
                                              "fa3",
                                              "fa4",
                                              "flashinfer",
                                              "flashmla",
                                              "trtllm_mla",
                                              "cutedsl_mla",
                                              "trtllm_mha",
                                              "tokenspeed_mla",
                                              "dual_chunk_flash_attn"};
  return names;
}

const std::vector<std::string>& vllm_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const AttentionRow& row : attention_rows()) out.push_back(row.backend);
    return out;
  }();
  return names;
}

/// NVIDIA/TensorRT-LLM LlmArgs.attn_backend, 2025.
const std::vector<std::string>& trtllm_names() {
  static const std::vector<std::string> names{"trtllm", "flashinfer", "flashinfer_star_attention", "vanilla"};
  return names;
}

/// Other names of the same kernels.
struct Alias {
  EnginePreset preset;
  std::string_view spelled, name;
};
constexpr std::array<Alias, 4> aliases{{{EnginePreset::vllm, "triton_attn", "triton"},
                                        {EnginePreset::vllm, "fa3", "flash_attn_3"},
                                        {EnginePreset::sglang, "nsa", "dsa"},
                                        {EnginePreset::sglang, "compressed", "dsv4"}}};

}  // namespace

const std::vector<std::string>& attention_backends(EnginePreset preset) {
  switch (preset) {
    case EnginePreset::vllm:
      return vllm_names();
    case EnginePreset::trtllm:
      return trtllm_names();
    case EnginePreset::sglang:
      break;
  }
  return sglang_names();
}

std::optional<std::string> attention_backend(EnginePreset preset, const std::string& spelled) {
  std::string name;
  for (const char c : spelled) name += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  constexpr std::string_view version = "_vllm_v1";
  if (preset == EnginePreset::vllm && name.ends_with(version)) name.resize(name.size() - version.size());
  for (const Alias& alias : aliases)
    if (alias.preset == preset && alias.spelled == name) name = alias.name;
  const std::vector<std::string>& names = attention_backends(preset);
  if (std::find(names.begin(), names.end(), name) == names.end()) return std::nullopt;
  return name;
}

GraphSupport support_of(const std::string& backend) {
  const std::optional<std::string> name = attention_backend(EnginePreset::vllm, backend);
  for (const AttentionRow& row : attention_rows())
    if (row.backend == name) return row.support;
  return backend.empty() ? GraphSupport::uniform_batch : GraphSupport::never;
}

bool attends_mla_only(const std::string& name) {
  return name.find("mla") != std::string::npos;  // flashmla, triton_mla, flashinfer_mla_sparse, ...
}

}  // namespace specstep
