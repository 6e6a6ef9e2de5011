// Where the memory of one GPU goes when an engine serves a run: every term, the KV pool, and whether it starts at all.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/config.h"
#include "sim/engine/memory.h"

namespace specstep {

/// A line of the ledger. `given`: a figure of a log (engine.memory.measured) instead of a computed one.
struct MemoryTerm {
  std::string name;
  double bytes = 0;
  std::string how;
  bool given = false;
};

/// A reported figure beside its model; in `unit`.
struct MemoryComparison {
  std::string name, unit;
  double reported = 0, modelled = 0;
  double unexplained() const { return reported - modelled; }
};

/// Bytes of one GPU.
struct MemoryBudget {
  std::string rule, source;
  Fraction fraction;  // its terms only where the engine chose it
  bool automatic = false;

  double board = 0, usable = 0;  // as nvidia-smi tells it, and what CUDA offers of it
  double context = 0;
  std::vector<MemoryTerm> comm;
  double free_before = 0;  // once communicators are open, before the weights are loaded
  bool free_given = false;
  double weights = 0, draft_weights = 0, activations = 0, graphs = 0;
  bool weights_given = false, draft_given = false, activations_given = false, graphs_given = false;
  std::string graphs_how;
  bool graphs_in_pool = false;    // taken out of the KV pool ahead
  std::int64_t chunk_tokens = 0;  // of the prefill that the activations are of
  double kv = 0;
  double process = 0;  // all that the engine takes
  double left = 0;     // free once it runs; negative: it runs out of memory while it starts

  double kv_per_token = 0, kv_per_sequence = 0;
  std::int64_t kv_tokens = 0;
  std::int64_t request_tokens = 0;  // of one sequence of the workload, lookahead included
  std::int64_t largest_batch = 0;   // of such sequences, all attention groups together

  std::vector<std::string> warnings;
  std::vector<MemoryComparison> compared;

  double comm_bytes() const;
  /// Whether a page is left for the KV pool.
  bool starts() const { return kv_tokens > 0; }
  /// Whether the engine comes up and takes a request of the workload: graphs and activations fit beside the pool, and
  /// one request fits into it.
  bool serves() const { return starts() && left >= 0 && kv_tokens >= request_tokens; }
};

/// Tokens that a pool holds in whole pages, 0 for less than one.
std::int64_t pool_tokens(double bytes, double bytes_per_token, std::int64_t page_tokens);

/// The ledger of a run, whether the engine starts or not. Throws InputError where the engine's rule is not known.
MemoryBudget memory_budget(const RunConfig& config);
/// The lines to print, from the board's memory to what is left.
std::vector<MemoryTerm> memory_terms(const MemoryBudget& budget);
/// The engine's error with what would help; empty when it serves.
std::string start_refusal(const RunConfig& config, const MemoryBudget& budget);

}  // namespace specstep
