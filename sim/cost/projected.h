// mla attention of a verify pass on the path of prompts.
#pragma once

#include "sim/config.h"
#include "sim/cost/roofline.h"

namespace specstep {

/// Whether verify passes of a run take that path: vLLM sends queries of more than one token there where the attention
/// backend has no uniform batches, unless engine.phases says that it captures them (vllm-project/vllm v1 mla/common.py,
/// early 2026).
bool verify_projects_context(const RunConfig& config);

/// Seconds of one layer's attention on that path instead of the absorbed form of decode: the cached latents of the
/// whole context are gathered, projected to keys and values of each head, put together and attended to. Traffic and
/// flops alone: how few blocks such an attention has is not modelled.
KernelPrice price_projected(const GpuSpec& gpu, const AttentionSpec& heads, const Attention& op);

}  // namespace specstep
