#include "sim/cost/projected.h"

namespace specstep {

bool verify_projects_context(const RunConfig& config) {
  const EngineSpec& e = config.engine;
  return e.preset == EnginePreset::vllm && config.stack.attention.kind == AttentionKind::mla &&
         support_of(e.attention_backend) < GraphSupport::uniform_batch && e.phases.verify != Launch::captured;
}

KernelPrice price_projected(const GpuSpec& gpu, const AttentionSpec& heads, const Attention& op) {
  constexpr double value = 2;  // bytes of bf16
  const std::int64_t rows = (op.sequences - op.padding) * (op.context + op.queries);
  const auto tokens = static_cast<double>(rows);
  const auto local = static_cast<double>(op.heads);
  const auto latent = static_cast<double>(op.cached_values);
  const auto nope = static_cast<double>(heads.nope_dim);
  const auto key = static_cast<double>(heads.nope_dim + heads.rope_dim);
  const auto out = static_cast<double>(heads.value_dim);
  const Gemm project{.m = rows, .n = op.heads * (heads.nope_dim + heads.value_dim), .k = heads.kv_rank};
  KernelPrice price = price_kernel(gpu, project);
  const double gather = tokens * latent * (bytes_of(op.kv) + value);
  const double concatenate = tokens * value * (local * (nope + key) + static_cast<double>(heads.rope_dim));
  const double attend = tokens * value * local * (key + out);
  const KernelClass& copies = gpu.kernels.other;
  const KernelClass& attention = gpu.kernels.attention;
  const double peak = gpu.memory_bandwidth_gb_s.value * 1e9;
  price.seconds += (gather + concatenate) / (peak * copies.bandwidth_efficiency.value) +
                   (attend + attention.ramp_mb.value * 1e6) / (peak * attention.bandwidth_efficiency.value);
  return price;
}

}  // namespace specstep
