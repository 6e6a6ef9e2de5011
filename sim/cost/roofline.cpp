// The roofline with a bandwidth ramp and a floor.
#include "sim/cost/roofline.h"

#include <algorithm>
#include <cmath>

#include "model/base/units.h"

namespace specstep {

namespace {

struct ClassOf {
  const KernelClasses& k;
  const KernelClass* of(const Gemm&) const { return &k.gemm; }
  const KernelClass* of(const GroupedGemm&) const { return &k.grouped_gemm; }
  const KernelClass* of(const Attention&) const { return &k.attention; }
  const KernelClass* of(const AttentionJoin&) const { return &k.other; }
  const KernelClass* of(const SparseIndex&) const { return &k.attention; }
  const KernelClass* of(const LinearAttention&) const { return &k.attention; }
  const KernelClass* of(const AllReduce&) const { return nullptr; }
  const KernelClass* of(const AllGather&) const { return nullptr; }
  const KernelClass* of(const ReduceScatter&) const { return nullptr; }
  const KernelClass* of(const AllToAll&) const { return nullptr; }
  const KernelClass* of(const RmsNorm&) const { return &k.other; }
  const KernelClass* of(const AllReduceNorm&) const { return &k.other; }  // its norm
  const KernelClass* of(const Activation&) const { return &k.other; }
  const KernelClass* of(const Rope&) const { return &k.other; }
  const KernelClass* of(const Router&) const { return &k.other; }
  const KernelClass* of(const Combine&) const { return &k.other; }
  const KernelClass* of(const Embed&) const { return &k.other; }
  const KernelClass* of(const Sample&) const { return &k.other; }
};

comm::Provenance provenance_of(const Quantity& q) {
  if (q.fitted) return comm::Provenance::fit;
  return q.has_source() ? comm::Provenance::measured : comm::Provenance::assumed;
}

/// Of a share of a peak: no better than a peak that is a bare number.
comm::Provenance provenance_of(const Quantity& share, const Quantity& peak) {
  return peak.bare() ? comm::Provenance::assumed : provenance_of(share);
}

double ceil_div(double a, double b) { return std::ceil(a / b); }

/// Blocks of all sequences. Queries that share a read fill a block together with their heads.
double blocks_of(const SplitAttention& split, const Attention& op) {
  const auto per_block = static_cast<double>(split.heads_per_block);
  const auto kv_heads = static_cast<double>(
      op.kind == AttentionKind::mla ? 1 : std::max<std::int64_t>(1, op.cached_values / (2 * op.score_dim)));
  const double heads = static_cast<double>(op.heads) / kv_heads;
  const auto queries = static_cast<double>(op.queries);
  const double rows = op.queries_share_kv ? ceil_div(queries * heads, per_block) : queries * ceil_div(heads, per_block);
  return static_cast<double>(op.sequences - op.padding) * kv_heads * rows * static_cast<double>(split.splits);
}

}  // namespace

KernelPrice price_split_attention(const GpuSpec& gpu, const SplitAttention& split, const Attention& op) {
  const KernelClass& k = gpu.kernels.attention;
  const double bandwidth = gpu.memory_bandwidth_gb_s.value * 1e9 * k.bandwidth_efficiency.value;
  const double fixed = k.ramp_mb.value * 1e6 / bandwidth;
  const double tokens = tokens_seen(op.context, op.queries, op.limit) / static_cast<double>(op.context_ranks);
  const double waves = ceil_div(blocks_of(split, op), gpu.multiprocessors.value);
  const double blocks = waves * tokens / static_cast<double>(split.splits) * split.token_ns.value * 1e-9;
  Attention once = op;  // rows of a sequence run side by side: the cache behind the multiprocessors serves all but one
  once.queries_share_kv = true;
  const double memory = cost_of(once).bytes() / bandwidth;
  if (blocks > memory) return {std::max(k.floor_us.value * us, fixed + blocks), provenance_of(split.token_ns)};
  return {std::max(k.floor_us.value * us, fixed + memory),
          provenance_of(k.bandwidth_efficiency, gpu.memory_bandwidth_gb_s)};
}

KernelPrice price_kernel(const GpuSpec& gpu, const Op& op) {
  const KernelClass* kernel = std::visit([&](const auto& o) { return ClassOf{gpu.kernels}.of(o); }, op);
  if (!kernel) return {};
  const Cost cost = cost_of(op);
  // The floor of attention is that of the whole operation: its kernels run as one.
  const bool whole = kernel == &gpu.kernels.attention;
  const double floor = (whole ? 1.0 : cost.nodes) * kernel->floor_us.value * us;
  const double compute = cost.flops / (gpu.bf16_tflops.value * 1e12 * kernel->compute_efficiency.value);
  const double bandwidth = gpu.memory_bandwidth_gb_s.value * 1e9 * kernel->bandwidth_efficiency.value;
  const double memory = (cost.bytes() + kernel->ramp_mb.value * 1e6) / bandwidth;
  if (floor >= std::max(compute, memory)) return {floor, provenance_of(kernel->floor_us)};
  if (memory >= compute) return {memory, provenance_of(kernel->bandwidth_efficiency, gpu.memory_bandwidth_gb_s)};
  return {compute, provenance_of(kernel->compute_efficiency, gpu.bf16_tflops)};
}

}  // namespace specstep
