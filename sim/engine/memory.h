// The memory rules of serving engines: which share of a GPU they take, and what they leave room for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/base/quantity.h"
#include "sim/engine/preset.h"

namespace specstep {

/// fixed_2025: SGLang's fixed reserve by GPU size. reserve_2026: its sum of reserves, early 2026. reserve_late_2026:
/// the same with terms that came later. utilisation: vLLM's share of the whole GPU. free_share: TensorRT-LLM's share of
/// what the weights leave.
enum class MemoryRule { fixed_2025, reserve_2026, reserve_late_2026, utilisation, free_share };
template <>
struct EnumNames<MemoryRule> {
  static std::vector<std::string> names() {
    return {"fixed_2025", "reserve_2026", "reserve_late_2026", "utilisation", "free_share"};
  }
};

/// Figures of a log that replace what would be computed. GiB.
struct MeasuredMemory {
  std::optional<double> free_gib;     // before the weights are loaded, communicators open
  std::optional<double> weights_gib;  // of the target
  std::optional<double> draft_gib;    // weights of the draft
  std::optional<double> graph_gib;
  std::optional<double> activations_gib;
};

/// Figures of a log to set beside what is computed. GiB.
struct ReportedMemory {
  std::optional<double> weights_gib, kv_gib, kv_tokens, comm_gib, graph_gib, free_gib, process_gib;
};

/// NCCL's channels; `channels` auto: those of the fabric's NCCL graph.
struct NcclMemory {
  Auto<std::int64_t> channels;
  std::int64_t peers = 1;
  std::int64_t communicators = 1;
  double buffer_mib = 4;
};

struct MemorySpec {
  Auto<double> fraction;
  Auto<MemoryRule> rule;
  Auto<std::int64_t> chunk_tokens;   // most tokens of a prefill pass
  Auto<std::int64_t> page_tokens;    // tokens of one page of the KV pool
  std::int64_t piecewise_sizes = 0;  // reserve_2026: sizes of captured prefills
  bool mla_prefill_graphs = false;   // reserve_late_2026
  bool deepep = false;               // likewise
  bool after_capture = false;        // likewise: the pool is sized once the graphs are captured
  Auto<bool> graph_estimate;         // utilisation: graphs are taken out of the pool
  Quantity context_gib{
      1.22,
      "97,887 MiB of an RTX PRO 6000 less 93.99 GiB free in an SGLang log of GLM-5 on 8 ranks and less "
      "0.411e9 B of NCCL (ai-dynamo/aiconfigurator@095f58a systems/rtx_pro_6000_server.yaml)",
      true};
  NcclMemory nccl;
  MeasuredMemory measured;
  ReportedMemory reported;
};

/// The rule of an engine and version that is not told otherwise.
MemoryRule memory_rule(const MemorySpec& memory, EnginePreset preset, const std::string& version);
/// Whose rule it is, from when.
std::string memory_rule_source(MemoryRule rule);
/// The engine's own words when nothing is left for a KV pool.
std::string start_error(MemoryRule rule);

/// What speculation adds to SGLang's reserve: nothing (n-gram too), a draft layer, or a whole model of its own.
enum class DraftReserve { none, layer, standalone };

/// What SGLang's reserves depend on.
struct ReserveQuery {
  double gpu_mib = 0;  // as nvidia-smi tells it, the least of all GPUs
  std::int64_t tensor = 1;
  std::int64_t attention_data = 1;
  std::int64_t max_batch = 1;     // largest captured
  std::int64_t chunk_tokens = 0;  // 0: by GPU size
  std::int64_t piecewise_sizes = 0;
  DraftReserve draft = DraftReserve::none;
  std::int64_t vision_layers = 0, vision_hidden = 0;
  bool mla_prefill_graphs = false, deepep = false, after_capture = false;
};

struct ReserveTerm {
  std::string what;
  double mib = 0;
};

/// A share of the GPU and how it came about.
struct Fraction {
  double value = 0;
  std::vector<ReserveTerm> terms;  // of the reserve
  double vision_factor = 1;
};

/// SGLang's chunked-prefill-size by GPU memory.
std::int64_t sglang_chunk_tokens(double gpu_mib);
/// mem_fraction_static when nobody sets it. Throws InputError where the rule is not known for such a GPU.
Fraction sglang_fraction(MemoryRule rule, const ReserveQuery& query);
/// What SGLang multiplies the share with for a model that sees: 0.95 clamp(1 - 0.1 (L h^2 / (24 x 1024^2) - 1),
/// 0.8, 1.05).
double vision_factor(std::int64_t layers, std::int64_t hidden);

/// vLLM's two shares that give the same pool: with the graphs inside it, and without. Each is `fraction` +- estimate /
/// total, as its log says when it estimates graphs.
struct EquivalentShares {
  double up = 0, down = 0;
};
EquivalentShares equivalent_shares(double fraction, double graph_bytes, double total_bytes);

void describe(Fields& f, MeasuredMemory& m);
void describe(Fields& f, ReportedMemory& r);
void describe(Fields& f, NcclMemory& n);
void describe(Fields& f, MemorySpec& m);
void check(const MemorySpec& m, Checker& c);

}  // namespace specstep
