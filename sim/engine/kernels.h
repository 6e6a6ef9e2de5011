// Kernels of a serving engine where they differ from those that a GPU's file was fitted to.
#pragma once

#include <cstdint>
#include <optional>

#include "model/base/quantity.h"

namespace specstep {

/// Decode attention launched as independent blocks: each takes up to `heads_per_block` heads of one query over one of
/// `splits` parts of a sequence's cache, token by token. Blocks run one on a multiprocessor, in waves:
///   t = ceil(blocks / multiprocessors) (tokens / splits) token_ns
/// or what the memory takes to read each sequence's cache once, if that is longer.
/// With few sequences most multiprocessors idle; from some number of rows on each costs the same.
struct SplitAttention {
  std::int64_t splits = 1;
  std::int64_t heads_per_block = 16;
  Quantity token_ns;
};

struct EngineKernels {
  /// Whether a verify pass reads a sequence's cache once for all its queries; else each query is a row of its own.
  bool queries_share_cache = true;
  std::optional<SplitAttention> split_attention;  // left out: the GPU's bandwidth alone
  /// Time of a layer that no operation of the plan accounts for: small kernels and gaps of this engine.
  std::optional<Quantity> layer_overhead_us;
  /// Host time of the engine for each kernel that it launches by itself, beside the driver's; left out: not known.
  std::optional<Quantity> operator_host_us;
};

void describe(Fields& f, SplitAttention& s);
void check(const SplitAttention& s, Checker& c);
void describe(Fields& f, EngineKernels& k);
void check(const EngineKernels& k, Checker& c);

}  // namespace specstep
