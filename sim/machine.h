// The hardware of a run: GPUs, the fabric between them, the host that launches. Every number has its source.
#pragma once

#include <optional>
#include <string>

#include "comm/fabric.h"
#include "model/base/quantity.h"
#include "sim/collective_table.h"

namespace specstep {

/// How well one class of kernels uses the GPU. Time of a kernel that moves B bytes and does F flops:
///   max(floor, F / (peak compute_efficiency), B / (peak bandwidth e(B)))  with  e(B) = bandwidth_efficiency B / (B +
///   ramp_mb)
/// so a small transfer costs a constant ramp_mb / (peak bandwidth_efficiency) beside its share of the bandwidth.
struct KernelClass {
  Quantity bandwidth_efficiency;
  Quantity ramp_mb;  // 10^6 bytes
  Quantity compute_efficiency;
  Quantity floor_us;  // shortest time of one kernel
};

struct KernelClasses {
  KernelClass gemm;          // dense products
  KernelClass grouped_gemm;  // products of experts
  KernelClass attention;     // over the cache, all its kernels together
  KernelClass other;         // norms, activations, rope, router, sampling
};

struct GpuSpec {
  std::string name;
  std::optional<Quantity> compute_capability;  // 12.0 for sm_120
  Quantity memory_gib;                         // of the board, as nvidia-smi tells it
  std::optional<Quantity> usable_gib;          // of it what CUDA offers (cudaDeviceProp::totalGlobalMem)
  Quantity memory_bandwidth_gb_s;
  Quantity bf16_tflops;      // dense, without sparsity
  Quantity graph_node_us;    // from one kernel's end to the next one's start inside a CUDA graph
  Quantity eager_launch_us;  // host time to launch one kernel from a stream
  Quantity multiprocessors;  // 0: not known
  KernelClasses kernels;
};

struct MachineSpec {
  std::string name;
  std::string source;
  GpuSpec gpu;
  std::int64_t count = 1;
  comm::FabricSpec fabric;
  std::optional<CollectiveTable> collectives;  // stands before the price of the fabric where it was measured
};

void describe(Fields& f, KernelClass& k);
void check(const KernelClass& k, Checker& c);
void describe(Fields& f, KernelClasses& k);
void describe(Fields& f, GpuSpec& g);
void check(const GpuSpec& g, Checker& c);
void describe(Fields& f, MachineSpec& m);
void check(const MachineSpec& m, Checker& c);

}  // namespace specstep
