// Reading of GPUs and machines.
#include "sim/machine.h"

#include "comm/topology.h"
#include "model/base/formatted.h"

namespace specstep {

void describe(Fields& f, KernelClass& k) {
  f.required("bandwidth_efficiency", k.bandwidth_efficiency,
             "share of the peak bandwidth that a large transfer reaches");
  f.required("ramp_mb", k.ramp_mb, "10^6 bytes at which half of that is reached");
  f.required("compute_efficiency", k.compute_efficiency, "share of the peak flops that a large product reaches");
  f.required("floor_us", k.floor_us, "shortest time of one kernel");
}

void check(const KernelClass& k, Checker& c) {
  check_range(c, "bandwidth_efficiency", k.bandwidth_efficiency, {.min = 1e-4, .max = 1});
  check_range(c, "compute_efficiency", k.compute_efficiency, {.min = 1e-4, .max = 1});
  check_range(c, "ramp_mb", k.ramp_mb, {.min = 0, .max = 1e6});
  check_range(c, "floor_us", k.floor_us, {.min = 0, .max = 1e6});
}

void describe(Fields& f, KernelClasses& k) {
  f.required("gemm", k.gemm, "dense products");
  f.required("grouped_gemm", k.grouped_gemm, "products of experts");
  f.required("attention", k.attention, "attention over the cache, all its kernels together");
  f.required("other", k.other, "norms, activations, rope, router, sampling");
}

void describe(Fields& f, GpuSpec& g) {
  f.required("name", g.name, "name of the GPU");
  f.optional("compute_capability", g.compute_capability,
             "as in 12.0 for sm_120: what runs there (specstep list --capabilities)");
  f.required("memory_gib", g.memory_gib, "memory of the board, as nvidia-smi tells it");
  f.optional("usable_gib", g.usable_gib, "of it what CUDA offers; all of it when left out");
  f.required("memory_bandwidth_gb_s", g.memory_bandwidth_gb_s, "peak memory bandwidth, 10^9 bytes a second");
  f.required("bf16_tflops", g.bf16_tflops, "peak dense bf16 tensor throughput, 10^12 a second");
  f.required("graph_node_us", g.graph_node_us, "gap between two kernels inside a CUDA graph");
  f.required("eager_launch_us", g.eager_launch_us, "host time to launch one kernel eagerly");
  f.optional("multiprocessors", g.multiprocessors, "streaming multiprocessors; read for attention in blocks");
  f.required("kernels", g.kernels, "how well each class of kernels uses this GPU");
}

void check(const GpuSpec& g, Checker& c) {
  constexpr Range positive{.min = 1e-3, .max = 1e9};
  if (g.compute_capability) check_range(c, "compute_capability", *g.compute_capability, {.min = 5, .max = 20});
  check_range(c, "memory_gib", g.memory_gib, positive);
  if (g.usable_gib) check_range(c, "usable_gib", *g.usable_gib, {.min = 1e-3, .max = g.memory_gib.value});
  check_range(c, "memory_bandwidth_gb_s", g.memory_bandwidth_gb_s, positive);
  check_range(c, "bf16_tflops", g.bf16_tflops, positive);
  check_range(c, "multiprocessors", g.multiprocessors, {.min = 0, .max = 4096});
  check_range(c, "graph_node_us", g.graph_node_us, {.min = 0, .max = 1e6});
  check_range(c, "eager_launch_us", g.eager_launch_us, {.min = 0, .max = 1e6});
}

void describe(Fields& f, MachineSpec& m) {
  f.required("name", m.name, "name of the machine");
  f.optional("source", m.source, "where the description comes from");
  f.part("gpu", m.gpu, "gpus", "its GPUs, all alike");
  f.required("count", m.count, "how many GPUs it has", {.min = 1, .max = 1024});
  f.part("fabric", m.fabric, "fabrics", "what connects the GPUs");
  f.part("collectives", m.collectives, "collectives",
         "allreduce times measured on it: they stand before the price of the fabric at their sizes", false);
}

void check(const MachineSpec& m, Checker& c) {
  try {
    const auto gpus = comm::gpu_count(comm::build_topology(m.fabric));
    if (m.count > gpus)
      c.fail("count", formatted("is {}", m.count), formatted("at most the {} GPUs of the fabric", gpus));
  } catch (const InputError& e) {
    for (const Issue& issue : e.issues()) c.fail("fabric." + issue.key, issue.what, issue.allowed);
  }
}

}  // namespace specstep
