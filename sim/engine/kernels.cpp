// Reading of an engine's kernels.
#include "sim/engine/kernels.h"

namespace specstep {

void describe(Fields& f, SplitAttention& s) {
  f.required("splits", s.splits, "parts of a sequence's cache that run as blocks of their own",
             {.min = 1, .max = 4096});
  f.optional("heads_per_block", s.heads_per_block, "query heads that one block takes", {.min = 1, .max = 256});
  f.required("token_ns", s.token_ns, "time of one block for one cached token");
}

void check(const SplitAttention& s, Checker& c) { check_range(c, "token_ns", s.token_ns, {.min = 0, .max = 1e6}); }

void describe(Fields& f, EngineKernels& k) {
  f.optional("queries_share_cache", k.queries_share_cache,
             "a verify pass reads a sequence's cache once for all its queries; false: each query is a row of its own");
  f.optional("split_attention", k.split_attention,
             "attention in blocks over parts of the cache; left out: the GPU's bandwidth alone");
  f.optional("layer_overhead_us", k.layer_overhead_us,
             "time of a layer that no operation of the plan accounts for: small kernels and gaps of this engine");
  f.optional(
      "operator_host_us", k.operator_host_us,
      "host time of the engine for each kernel launched by itself, beside machine.gpu.eager_launch_us; left out: "
      "not known, none");
}

void check(const EngineKernels& k, Checker& c) {
  if (k.operator_host_us) check_range(c, "operator_host_us", *k.operator_host_us, {.min = 0, .max = 1e6});
  if (k.layer_overhead_us) check_range(c, "layer_overhead_us", *k.layer_overhead_us, {.min = 0, .max = 1e6});
}

}  // namespace specstep
