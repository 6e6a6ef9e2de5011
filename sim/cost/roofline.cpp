// The roofline with a bandwidth ramp and a floor.
#include "sim/cost/roofline.h"

#include <algorithm>

#include "model/base/units.h"

namespace specstep {

namespace {

struct ClassOf {
  const KernelClasses& k;
  const KernelClass* of(const Gemm&) const { return &k.gemm; }
  const KernelClass* of(const GroupedGemm&) const { return &k.grouped_gemm; }
  const KernelClass* of(const Attention&) const { return &k.attention; }
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

}  // namespace

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
  if (memory >= compute) return {memory, provenance_of(kernel->bandwidth_efficiency)};
  return {compute, provenance_of(kernel->compute_efficiency)};
}

}  // namespace specstep
