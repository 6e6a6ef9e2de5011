// Memory rules, term by term.
#include "sim/engine/memory.h"

#include <algorithm>
#include <cmath>

#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep {

MemoryRule memory_rule(const MemorySpec& memory, EnginePreset preset, const std::string& version) {
  if (memory.rule) return *memory.rule.value;
  if (preset == EnginePreset::vllm) return MemoryRule::utilisation;
  if (preset == EnginePreset::trtllm) return MemoryRule::free_share;
  return is_since(version, "0.5.4") ? MemoryRule::reserve_2026 : MemoryRule::fixed_2025;
}

std::string memory_rule_source(MemoryRule rule) {
  switch (rule) {
    case MemoryRule::fixed_2025:
      return "sgl-project/sglang server_args, 2025; that 0.5.4 is the first with the sum of reserves is assumed";
    case MemoryRule::reserve_2026:
      return "sgl-project/sglang server_args and model_runner, early 2026";
    case MemoryRule::reserve_late_2026:
      return "sgl-project/sglang arg_groups memory, late 2026";
    case MemoryRule::utilisation:
      return "vllm-project/vllm gpu_worker, early 2026";
    case MemoryRule::free_share:
      return "NVIDIA/TensorRT-LLM KvCacheConfig.free_gpu_memory_fraction, early 2026";
  }
  return {};
}

std::string start_error(MemoryRule rule) {
  switch (rule) {
    case MemoryRule::utilisation:
      return "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the "
             "engine.";
    case MemoryRule::free_share:
      return "Not enough memory for a KV cache beside the weights.";
    default:
      return "Not enough memory. Please try to increase --mem-fraction-static.";
  }
}

std::int64_t sglang_chunk_tokens(double gpu_mib) {
  if (gpu_mib < 35 * 1024.0) return 2048;
  if (gpu_mib < 60 * 1024.0) return 4096;
  if (gpu_mib < 160 * 1024.0) return 8192;
  return 16384;
}

double vision_factor(std::int64_t layers, std::int64_t hidden) {
  const double size = static_cast<double>(layers) * static_cast<double>(hidden) * static_cast<double>(hidden);
  return 0.95 * std::clamp(1 - 0.1 * (size / (24.0 * 1024 * 1024) - 1), 0.8, 1.05);
}

namespace {

double total(const std::vector<ReserveTerm>& terms) {
  double sum = 0;
  for (const ReserveTerm& t : terms) sum += t.mib;
  return sum;
}

void add(std::vector<ReserveTerm>& terms, std::string what, double mib) {
  if (mib != 0) terms.push_back({std::move(what), mib});
}

void add_draft(std::vector<ReserveTerm>& terms, DraftReserve draft) {
  if (draft == DraftReserve::layer) add(terms, "draft", 2048);
  if (draft == DraftReserve::standalone) add(terms, "draft model of its own", 6144);
}

std::vector<ReserveTerm> fixed_2025_terms(const ReserveQuery& q) {
  if (q.gpu_mib < 90 * 1024.0 || q.gpu_mib >= 160 * 1024.0)
    throw InputError(Issue{{},
                           "engine.memory.fraction",
                           formatted("is auto, and the rule of 2025 is not known for a GPU of {:.0f} MiB", q.gpu_mib),
                           "a number, or a GPU of 90 to 160 GiB"});
  std::vector<ReserveTerm> terms;
  add(terms, "fixed, for a GPU of 90 to 160 GiB", 12 * 1024);
  add(terms, formatted("ranks, 512 x {}", q.tensor), 512.0 * static_cast<double>(q.tensor));
  add_draft(terms, q.draft);
  if (q.attention_data > 1) add(terms, "attention groups", 4096);
  return terms;
}

std::vector<ReserveTerm> reserve_2026_terms(const ReserveQuery& q) {
  const auto batch = static_cast<double>(q.max_batch);
  const auto groups = static_cast<double>(q.attention_data);
  const std::int64_t chunk =
      std::max<std::int64_t>(q.chunk_tokens > 0 ? q.chunk_tokens : sglang_chunk_tokens(q.gpu_mib), 2048);
  std::vector<ReserveTerm> terms;
  add(terms, "fixed", 512);
  add(terms, formatted("prefill, 1.5 x {} tokens", chunk), 1.5 * static_cast<double>(chunk));
  add(terms, formatted("graphs, 2 x {}", q.max_batch), 2 * batch);
  add(terms, formatted("ranks, 128 x {}", q.tensor), 128.0 * static_cast<double>(q.tensor));
  if (q.attention_data > 1)
    add(terms,
        formatted("attention groups, {} x {} sequences x {}", q.max_batch > 300 ? 4.5 : 3.0, q.max_batch,
                  q.attention_data),
        (q.max_batch > 300 ? 4.5 : 3.0) * batch * groups);
  add(terms, "captured prefills", 8.0 * static_cast<double>(q.piecewise_sizes));
  if (q.gpu_mib > 60 * 1024.0) add(terms, "at least 10,240 in all", std::max(0.0, 10240 - total(terms)));
  add_draft(terms, q.draft);
  return terms;
}

std::vector<ReserveTerm> reserve_late_2026_terms(const ReserveQuery& q) {
  std::vector<ReserveTerm> terms;
  if (q.after_capture) {
    add(terms, "fixed", 1536);
    add(terms, formatted("ranks, 128 x {}", q.tensor), 128.0 * static_cast<double>(q.tensor));
    if (q.vision_layers > 0) add(terms, "pictures", 8192);
    return terms;
  }
  terms = reserve_2026_terms(q);
  if (q.mla_prefill_graphs) add(terms, "graphs of mla prefills", 1536);
  if (q.deepep) add(terms, "DeepEP", 2048);
  return terms;
}

}  // namespace

Fraction sglang_fraction(MemoryRule rule, const ReserveQuery& q) {
  Fraction out;
  out.terms = rule == MemoryRule::fixed_2025     ? fixed_2025_terms(q)
              : rule == MemoryRule::reserve_2026 ? reserve_2026_terms(q)
                                                 : reserve_late_2026_terms(q);
  out.value = std::round((q.gpu_mib - total(out.terms)) / q.gpu_mib * 1000) / 1000;
  const bool in_terms = rule == MemoryRule::reserve_late_2026 && q.after_capture;
  if (q.vision_layers > 0 && !in_terms) out.vision_factor = vision_factor(q.vision_layers, q.vision_hidden);
  out.value *= out.vision_factor;
  return out;
}

EquivalentShares equivalent_shares(double fraction, double graph_bytes, double total_bytes) {
  return {fraction + graph_bytes / total_bytes, fraction - graph_bytes / total_bytes};
}

namespace {
constexpr Range gib_range{.min = 0, .max = 1e6};
}  // namespace

void describe(Fields& f, MeasuredMemory& m) {
  f.optional("free_gib", m.free_gib, "free memory before the weights are loaded, communicators open", gib_range);
  f.optional("weights_gib", m.weights_gib, "weights of the target", gib_range);
  f.optional("draft_gib", m.draft_gib, "weights of the draft", gib_range);
  f.optional("graph_gib", m.graph_gib, "CUDA graphs", gib_range);
  f.optional("activations_gib", m.activations_gib, "peak of the activations", gib_range);
}

void describe(Fields& f, ReportedMemory& r) {
  f.optional("weights_gib", r.weights_gib, "weights, those of the draft included", gib_range);
  f.optional("kv_gib", r.kv_gib, "the KV pool", gib_range);
  f.optional("kv_tokens", r.kv_tokens, "tokens of the KV pool", {.min = 0, .max = 1e15});
  f.optional("comm_gib", r.comm_gib, "buffers of communicators", gib_range);
  f.optional("graph_gib", r.graph_gib, "CUDA graphs", gib_range);
  f.optional("free_gib", r.free_gib, "left over once the engine runs", gib_range);
  f.optional("process_gib", r.process_gib, "all that the engine's process takes", gib_range);
}

void describe(Fields& f, NcclMemory& n) {
  f.optional("channels", n.channels, "channels of a communicator; auto: those of the fabric", {.min = 1, .max = 64});
  f.optional("peers", n.peers, "peers of a channel: 1 for a ring, trees add up to four", {.min = 1, .max = 64});
  f.optional("communicators", n.communicators, "communicators of the engine", {.min = 1, .max = 1000});
  f.optional("buffer_mib", n.buffer_mib, "NCCL_BUFFSIZE", {.min = 0.0625, .max = 4096});
}

void describe(Fields& f, MemorySpec& m) {
  f.optional("fraction", m.fraction,
             "share of memory that the engine takes (mem-fraction-static, gpu_memory_utilization, "
             "free_gpu_memory_fraction); auto: its own rule",
             {.min = 0, .max = 1, .above_min = true});
  f.optional("rule", m.rule, "which rule shares memory out; auto: that of the preset and version");
  f.optional("chunk_tokens", m.chunk_tokens,
             "most tokens of a prefill pass (chunked-prefill-size, max_num_batched_tokens)", {.min = 1, .max = 1e7});
  f.optional("page_tokens", m.page_tokens, "tokens of a page of the KV pool", {.min = 1, .max = 65536});
  f.optional("piecewise_sizes", m.piecewise_sizes, "sglang: how many sizes of prefills are captured",
             {.min = 0, .max = 65536});
  f.optional("mla_prefill_graphs", m.mla_prefill_graphs, "reserve_late_2026: prefills of mla are captured");
  f.optional("deepep", m.deepep, "reserve_late_2026: DeepEP exchanges the experts' tokens");
  f.optional("after_capture", m.after_capture, "reserve_late_2026: the KV pool is sized after the graphs are captured");
  f.optional("graph_estimate", m.graph_estimate,
             "utilisation: graphs are estimated and taken out of the KV pool; auto: as vLLM does since 0.21");
  f.optional("context_gib", m.context_gib, "memory of the CUDA context and the engine's kernels");
  f.optional("nccl", m.nccl, "buffers of NCCL");
  f.optional("measured", m.measured, "figures of a log that replace what would be computed");
  f.optional("reported", m.reported, "figures of a log to set beside what is computed");
}

void check(const MemorySpec& m, Checker& c) {
  check_range(c, "context_gib", m.context_gib, {.min = 0, .max = 1e6});
  const bool late = m.rule && *m.rule.value == MemoryRule::reserve_late_2026;
  for (const auto& [key, on] : {std::pair{"mla_prefill_graphs", m.mla_prefill_graphs},
                                {"deepep", m.deepep},
                                {"after_capture", m.after_capture}})
    if (on && !late) c.fail(key, "is true", "rule: reserve_late_2026, which alone reads it");
}

}  // namespace specstep
