// Capture lists as rows: who, from which version, which grid of sizes.
#include "sim/engine/graphs.h"

#include <algorithm>
#include <array>

#include "model/base/formatted.h"

namespace specstep {

namespace {

/// Sizes from `from` to `to` in steps; `to` 0: to the largest.
struct Segment {
  std::int64_t from, to, step;
};

/// A rule. The first row that fits decides.
struct GridRow {
  EnginePreset preset;
  const char* since;
  std::optional<bool> speculative;  // nothing: either way
  std::optional<bool> padding;
  std::vector<Segment> grid;
  std::vector<Segment> beyond_96_gib;  // more sizes on such GPUs
  std::int64_t powers_from = 0;        // powers of two from here on, 0: none
  bool with_largest = false;           // the largest size that was asked for, on the grid or not
  const char* source;
};

constexpr const char* sglang_2026 =
    "sgl-project/sglang server_args, early 2026 (52 sizes at 512: sgl-project/sglang#11716)";
constexpr const char* sglang_2025 =
    "sgl-project/sglang cuda_graph_runner, mid 2025; that 0.5.4 is the first with the new list is assumed";
constexpr const char* vllm_grid = "vllm-project/vllm config/vllm and config/compilation, early 2026";
constexpr const char* trtllm_grid = "NVIDIA/TensorRT-LLM CudaGraphConfig, early 2026; later versions add steps of 64";

const std::vector<GridRow>& grid_rows() {
  using enum EnginePreset;
  static const std::vector<GridRow> rows{
      {sglang, "0", {}, false, {{1, 0, 1}}, {}, 0, false, sglang_2026},
      {sglang,
       "0.5.4",
       false,
       {},
       {{1, 2, 1}, {4, 12, 4}, {16, 256, 8}, {272, 511, 16}, {512, 0, 32}},
       {},
       0,
       false,
       sglang_2026},
      {sglang,
       "0.5.4",
       true,
       {},
       {{1, 8, 1}, {10, 32, 2}, {40, 64, 4}, {72, 256, 8}, {272, 0, 16}},
       {},
       0,
       false,
       sglang_2026},
      {sglang, "0", false, {}, {{1, 2, 1}, {4, 8, 4}, {16, 160, 8}}, {{160, 256, 8}}, 0, true, sglang_2025},
      {sglang, "0", true, {}, {{1, 8, 1}, {10, 32, 2}, {40, 160, 16}}, {{160, 256, 8}}, 0, true, sglang_2025},
      {vllm, "0", {}, {}, {{1, 2, 1}, {4, 4, 1}, {8, 255, 8}, {256, 0, 16}}, {}, 0, false, vllm_grid},
      {trtllm, "0", {}, true, {{1, 2, 1}, {4, 4, 1}, {8, 128, 8}}, {}, 256, true, trtllm_grid},
      {trtllm, "0", {}, {}, {{1, 32, 1}, {64, 128, 64}}, {}, 256, true, trtllm_grid},
  };
  return rows;
}

const GridRow& grid_row(const CaptureQuery& q, bool padding) {
  for (const GridRow& row : grid_rows())
    if (row.preset == q.preset && is_since(q.version, row.since) &&
        row.speculative.value_or(q.speculative) == q.speculative && row.padding.value_or(padding) == padding)
      return row;
  throw std::logic_error("an engine without a capture list");
}

/// SGLang's largest batch by GPU memory, early 2026: server_args.
std::int64_t sglang_max_batch(const CaptureQuery& q) {
  struct Row {
    double below_gib;
    std::int64_t few_ranks, many_ranks;  // fewer than four, or more
  };
  static constexpr std::array<Row, 5> rows{{{20, 8, 8}, {35, 24, 80}, {60, 32, 160}, {90, 256, 512}, {160, 256, 512}}};
  if (q.gpu_gib <= 0) return 160;
  for (const Row& row : rows)
    if (q.gpu_gib < row.below_gib) return q.ranks < 4 ? row.few_ranks : row.many_ranks;
  return 512;
}

/// The largest size and what decided it.
std::pair<std::int64_t, std::string> largest_size(const GraphSpec& graph, const CaptureQuery& q) {
  if (q.preset == EnginePreset::vllm) {
    if (graph.max_tokens) return {*graph.max_tokens.value, "engine.graph.max_tokens"};
    const std::int64_t sequences = q.max_sequences > 0 ? q.max_sequences : 256;
    return {std::min<std::int64_t>(2 * sequences * q.verify_tokens, 512),
            formatted("twice the tokens of {} sequences, 512 at most", sequences)};
  }
  if (graph.max_batch) return {*graph.max_batch.value, "engine.graph.max_batch"};
  if (q.preset == EnginePreset::trtllm) return {128, "the engine's default"};
  if (!is_since(q.version, "0.5.4")) return {q.gpu_gib > 96 ? 256 : 160, "the end of the engine's list"};
  return {sglang_max_batch(q), formatted("by {:.0f} GiB of GPU memory and {} ranks", q.gpu_gib, q.ranks)};
}

/// `asked`: the largest size was asked for, not found by a rule.
std::vector<std::int64_t> sizes_of(const GridRow& row, std::int64_t most, bool asked, double gpu_gib) {
  std::vector<std::int64_t> out;
  std::vector<Segment> grid = row.grid;
  if (gpu_gib > 96) grid.insert(grid.end(), row.beyond_96_gib.begin(), row.beyond_96_gib.end());
  for (const Segment& s : grid)
    for (std::int64_t size = s.from; size <= (s.to > 0 ? std::min(s.to, most) : most); size += s.step)
      out.push_back(size);
  for (std::int64_t power = row.powers_from; power > 0 && power <= most; power *= 2) out.push_back(power);
  if (row.with_largest && asked) out.push_back(most);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// vLLM, where a whole verify pass is one graph: every size holds whole sequences of K + 1 tokens.
void round_up_to(std::vector<std::int64_t>& sizes, std::int64_t multiple, std::int64_t most) {
  for (std::int64_t& size : sizes) size = (size + multiple - 1) / multiple * multiple;
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  std::erase_if(sizes, [most](std::int64_t size) { return size > most; });
}

CaptureCost sglang_capture() {
  const char* log =
      "SGLang on 8 ranks, 52 graphs: 11.82 GB free before, 10.30 with 21 graphs, 10.21 with 27 "
      "(sgl-project/sglang#11716)";
  return {{1.2, std::string("what the graphs of that log do not explain: ") + log, true},
          {15.4, std::string("slope of the later graphs: ") + log, true},
          {0, "the rate below holds from the start of that log"},
          {1 / 7.4, std::string("7.4 graphs a second: ") + log}};
}

CaptureCost vllm_capture() {
  return {{0, "nothing is reported apart from the graphs"},
          {21.4,
           "1.40 GiB of a Llama 4 Maverick server over the 67 sizes of its list (sgl-project/sglang#8538, 2025-07-29)",
           true},
          {0, "none reported"},
          {1 / 7.4, "assumed: as SGLang"}};
}

}  // namespace

std::optional<std::int64_t> CaptureList::fit(std::int64_t size) const {
  const auto next = std::lower_bound(sizes.begin(), sizes.end(), size);
  if (next == sizes.end() || (!padding && *next != size)) return std::nullopt;
  return *next;
}

std::vector<GridRule> grid_rules() {
  std::vector<GridRule> out;
  for (const GridRow& row : grid_rows()) {
    std::string what;
    const auto add = [&](const Segment& s) {
      what += what.empty() ? "" : ", ";
      what += s.from == s.to ? formatted("{}", s.from)
              : s.to == 0    ? formatted("from {}", s.from)
                             : formatted("{} to {}", s.from, s.to);
      if (s.step > 1 && s.from != s.to) what += formatted(" by {}", s.step);
    };
    for (const Segment& s : row.grid) add(s);
    if (!row.beyond_96_gib.empty()) what += formatted(", above 96 GiB to {}", row.beyond_96_gib.back().to);
    if (row.powers_from > 0) what += formatted(", powers of two from {}", row.powers_from);
    if (row.with_largest) what += ", the largest that is asked for";
    if (row.speculative) what += *row.speculative ? "; with a draft" : "; without a draft";
    if (row.padding) what += *row.padding ? "; padded" : "; not padded";
    out.push_back({row.preset, row.since, what, row.source});
  }
  return out;
}

GraphMode graph_mode(const GraphSpec& graph, EnginePreset preset) {
  return graph.mode.value_or(preset == EnginePreset::vllm ? GraphMode::full_and_piecewise
                                                          : GraphMode::full_decode_only);
}

CaptureList capture_list(const GraphSpec& graph, const CaptureQuery& q) {
  CaptureList out;
  out.in_tokens = q.preset == EnginePreset::vllm;
  // TensorRT-LLM's enable_padding is off unless it is asked for; the others pad.
  out.padding = graph.padding.value_or(q.preset != EnginePreset::trtllm);
  const GraphMode mode = graph_mode(graph, q.preset);
  if (mode == GraphMode::none) {
    out.rule = "engine.graph.mode none";
    return out;
  }
  if (graph.sizes) {
    out.sizes = *graph.sizes.value;
    out.rule = "engine.graph.sizes";
    return out;
  }
  const GridRow& row = grid_row(q, out.padding);
  const auto [most, why] = largest_size(graph, q);
  out.sizes = sizes_of(row, most, graph.max_batch || graph.max_tokens, q.gpu_gib);
  if (out.in_tokens && mode != GraphMode::piecewise && q.whole_verify && q.verify_tokens > 1)
    round_up_to(out.sizes, q.verify_tokens, most);
  out.rule = formatted("up to {}: {}", most, why);
  out.source = row.source;
  return out;
}

const CaptureCost& capture_cost(const GraphSpec& graph, EnginePreset preset) {
  static const CaptureCost sglang = sglang_capture();
  static const CaptureCost vllm = vllm_capture();
  if (graph.capture) return *graph.capture;
  return preset == EnginePreset::vllm ? vllm : sglang;
}

void describe(Fields& f, CaptureCost& c) {
  f.required("first_gib", c.first_gib, "memory that the first capture takes, beside its graph");
  f.required("per_graph_mib", c.per_graph_mib, "memory of one graph of the target");
  f.required("start_s", c.start_s, "time before the first graph");
  f.required("per_graph_s", c.per_graph_s, "time to capture one graph of the target");
}

void check(const CaptureCost& c, Checker& checker) {
  constexpr Range range{.min = 0, .max = 1e6};
  check_range(checker, "first_gib", c.first_gib, range);
  check_range(checker, "per_graph_mib", c.per_graph_mib, range);
  check_range(checker, "start_s", c.start_s, range);
  check_range(checker, "per_graph_s", c.per_graph_s, range);
}

void describe(Fields& f, GraphSpec& g) {
  f.optional("max_batch", g.max_batch,
             "largest captured number of sequences (SGLang cuda-graph-max-bs, TensorRT-LLM max_batch_size); auto: the "
             "engine's rule",
             {.min = 1, .max = 65536});
  f.optional("max_tokens", g.max_tokens, "vllm: largest captured number of tokens (max_cudagraph_capture_size)",
             {.min = 1, .max = 1048576});
  f.optional("sizes", g.sizes, "captured sizes, sequences or for vllm tokens; auto: the engine's list",
             {.min = 1, .max = 1048576});
  f.optional("mode", g.mode, "what becomes a graph, in vLLM's names; sglang and trtllm know none and full_decode_only");
  f.optional("padding", g.padding, "run sizes in between at the next captured one; left out: as the engine does");
  f.optional("capture", g.capture, "what capturing takes; left out: figures of the engine");
  f.optional("piece_launch_us", g.piece_launch_us,
             "piecewise: host time for each piece, from the launch of one graph to that of what follows it");
}

void check(const GraphSpec& g, Checker& c) {
  const std::vector<std::int64_t> sizes = g.sizes.value_or({});
  if (g.sizes && sizes.empty()) c.fail("sizes", "is empty", "auto, or one size or more; mode: none captures nothing");
  for (std::size_t i = 1; i < sizes.size(); ++i)
    if (sizes[i] <= sizes[i - 1])
      c.fail(formatted("sizes[{}]", i), formatted("is {} behind {}", sizes[i], sizes[i - 1]), "sizes ascending");
  check_range(c, "piece_launch_us", g.piece_launch_us, {.min = 0, .max = 1e6});
  if (!sizes.empty() && g.max_batch) c.fail("max_batch", "is given beside sizes", "auto: the sizes decide");
  if (!sizes.empty() && g.max_tokens) c.fail("max_tokens", "is given beside sizes", "auto: the sizes decide");
}

}  // namespace specstep
