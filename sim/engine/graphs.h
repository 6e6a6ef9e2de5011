// CUDA graphs of a serving engine: which batch sizes it captures, what a batch is padded to, what capturing costs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/quantity.h"
#include "sim/engine/preset.h"

namespace specstep {

/// vLLM's names. full_decode_only: decode and verify as one graph, everything else eagerly; what SGLang and
/// TensorRT-LLM do. full_and_piecewise: decode and verify as one graph, everything else in pieces.
enum class GraphMode { none, piecewise, full, full_decode_only, full_and_piecewise };
template <>
struct EnumNames<GraphMode> {
  static std::vector<std::string> names() {
    return {"none", "piecewise", "full", "full_decode_only", "full_and_piecewise"};
  }
};

/// What capturing takes. A graph of the target counts as one; others by their share of its kernels.
struct CaptureCost {
  Quantity first_gib;      // once, with the first capture: workspaces and the common pool
  Quantity per_graph_mib;  // each graph of the target
  Quantity start_s;        // once
  Quantity per_graph_s;    // each graph of the target
};

struct GraphSpec {
  Auto<std::int64_t> max_batch;           // largest captured number of sequences
  Auto<std::int64_t> max_tokens;          // the same where an engine counts tokens
  Auto<std::vector<std::int64_t>> sizes;  // instead of the engine's list, in its unit
  std::optional<GraphMode> mode;          // the engine's own when left out
  std::optional<bool> padding;            // likewise
  std::optional<CaptureCost> capture;     // likewise
  Quantity piece_launch_us{20, "assumed: the upper end of the 5 to 20 us that one launch through PyTorch takes"};
};

/// What the list of an engine depends on beside its settings.
struct CaptureQuery {
  EnginePreset preset = EnginePreset::sglang;
  std::string version;
  bool speculative = false;
  std::int64_t verify_tokens = 1;  // of each sequence in a verify pass; 1 without speculation
  bool whole_verify = true;        // vLLM: a verify pass is one graph, so that sizes hold whole sequences
  double gpu_gib = 0;
  std::int64_t ranks = 1;          // that share the model
  std::int64_t max_sequences = 0;  // that the engine runs at once; 0: its default
};

/// Captured sizes, ascending.
struct CaptureList {
  std::vector<std::int64_t> sizes;
  bool in_tokens = false;  // vLLM counts tokens, the others sequences
  bool padding = true;     // a size in between runs at the next larger one; else eagerly
  std::string rule;        // what made the list
  std::string source;      // of that rule, with its date
  std::int64_t largest() const { return sizes.empty() ? 0 : sizes.back(); }
  /// The captured size at which `size` runs; nothing when it runs without a graph.
  std::optional<std::int64_t> fit(std::int64_t size) const;
};
/// A rule of the table of lists, for printing.
struct GridRule {
  EnginePreset preset = EnginePreset::sglang;
  std::string since;
  std::string what;  // "[1..2, 4..12 by 4, ...], with a draft"
  std::string source;
};
std::vector<GridRule> grid_rules();

CaptureList capture_list(const GraphSpec& graph, const CaptureQuery& query);

/// The mode of an engine that is not told otherwise.
GraphMode graph_mode(const GraphSpec& graph, EnginePreset preset);
/// What capturing takes where the config does not say.
const CaptureCost& capture_cost(const GraphSpec& graph, EnginePreset preset);

void describe(Fields& f, CaptureCost& c);
void check(const CaptureCost& c, Checker& checker);
void describe(Fields& f, GraphSpec& g);
void check(const GraphSpec& g, Checker& c);

}  // namespace specstep
