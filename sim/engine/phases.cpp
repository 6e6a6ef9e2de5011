#include "sim/engine/phases.h"

#include <algorithm>

#include "model/base/formatted.h"

namespace specstep {

const std::optional<Launch>& PhaseLaunch::of(PassKind kind) const {
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
  return decode;
}

const std::vector<PhaseRow>& phase_rows() {
  using enum EnginePreset;
  using enum Launch;
  static const std::string early = "sgl-project/sglang cuda_graph_runner and eagle_worker, early 2026";
  static const std::string extend_early =
      early + ": the draft's extend is captured with triton and trtllm_mla attention alone";
  static const std::string extend_late =
      "sgl-project/sglang eagle_draft_extend_cuda_graph_runner, late 2026; that 0.5.10 is the first with it is assumed";
  static const std::string trt = "NVIDIA/TensorRT-LLM tech blogs 1 and 2, 2025: verify and drafts are one graph";
  static const std::vector<PhaseRow> rows{
      {sglang, "0", "", PassKind::prefill, eager, early},
      {sglang, "0", "", PassKind::decode, captured, early},
      {sglang, "0", "", PassKind::verify, captured, early},
      {sglang, "0", "", PassKind::draft, captured, early + ": one graph holds all draft steps"},
      {sglang, "0.5.10", "", PassKind::extend, captured, extend_late},
      {sglang, "0", "triton", PassKind::extend, captured, extend_early},
      {sglang, "0", "trtllm_mla", PassKind::extend, captured, extend_early},
      {sglang, "0", "", PassKind::extend, eager, extend_early},
      {trtllm, "0", "", PassKind::prefill, eager, trt},
      {trtllm, "0", "", PassKind::decode, captured, trt},
      {trtllm, "0", "", PassKind::verify, captured, trt},
      {trtllm, "0", "", PassKind::draft, captured, trt},
      {trtllm, "0", "", PassKind::extend, captured, trt},
  };
  return rows;
}

namespace {

const char* const vllm_modes = "vllm-project/vllm v1 CUDA graph dispatcher, early 2026";

/// vLLM lowers a mode that the attention cannot do: without whole graphs of these passes it keeps the pieces.
PhaseChoice vllm_launch(const PhaseQuery& q) {
  const GraphSupport support = support_of(q.attention_backend);
  const bool whole = q.mode != GraphMode::piecewise;
  const bool decode_only = q.mode == GraphMode::full_decode_only;
  const bool known = !q.attention_backend.empty();
  const std::string attention = formatted("graph support of attention {}: {}; {}",
                                          known ? q.attention_backend : "(not given)", name_of(support), vllm_modes);
  switch (q.kind) {
    case PassKind::decode:
      return {whole && support >= GraphSupport::single_token_decode ? Launch::captured : Launch::piecewise, attention};
    case PassKind::verify:
      return {whole && support >= GraphSupport::uniform_batch ? Launch::captured : Launch::piecewise, attention};
    case PassKind::prefill:
      if (decode_only) return {Launch::eager, "full_decode_only has no graphs for prompts"};
      return {q.mode == GraphMode::full && support == GraphSupport::always ? Launch::captured : Launch::piecewise,
              attention};
    case PassKind::draft:
    case PassKind::extend:
      if (decode_only) return {Launch::eager, "vLLM's drafter knows pieces alone, and full_decode_only has none"};
      return {Launch::piecewise, formatted("vLLM's drafter knows pieces alone; {}", vllm_modes)};
  }
  return {};
}

}  // namespace

PhaseChoice engine_launch(const PhaseQuery& q) {
  if (q.mode == GraphMode::none) return {Launch::eager, "engine.graph.mode none"};
  if (q.preset == EnginePreset::vllm) return vllm_launch(q);
  const std::optional<std::string> backend = attention_backend(q.preset, q.attention_backend);
  for (const PhaseRow& row : phase_rows())
    if (row.preset == q.preset && row.kind == q.kind && is_since(q.version, row.since) &&
        (row.attention_backend.empty() || row.attention_backend == backend))
      return {row.launch, row.source};
  return {};
}

void describe(Fields& f, PhaseLaunch& p) {
  f.optional("prefill", p.prefill, "how a prompt pass is launched; left out: as the engine does it");
  f.optional("decode", p.decode, "how a plain decode pass is launched");
  f.optional("verify", p.verify, "how a verify pass is launched");
  f.optional("draft", p.draft, "how a draft step is launched");
  f.optional("extend", p.extend, "how the draft's catch-up pass is launched");
}

}  // namespace specstep
