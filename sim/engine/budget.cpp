#include "sim/engine/budget.h"

#include <algorithm>
#include <cmath>

#include "comm/dispatch.h"
#include "comm/footprint.h"
#include "comm/nccl_footprint.h"
#include "comm/nccl_node.h"
#include "model/base/formatted.h"
#include "model/base/units.h"
#include "model/build_plan.h"
#include "sim/engine/launch.h"

namespace specstep {

double MemoryBudget::comm_bytes() const {
  double sum = 0;
  for (const MemoryTerm& t : comm) sum += t.bytes;
  return sum;
}

std::int64_t pool_tokens(double bytes, double bytes_per_token, std::int64_t page_tokens) {
  if (bytes <= 0 || bytes_per_token <= 0) return 0;
  return static_cast<std::int64_t>(bytes / bytes_per_token) / page_tokens * page_tokens;
}

namespace {

std::string memory_text(double bytes) {
  return bytes < gib ? formatted("{:.2f} MiB", bytes / mib) : formatted("{:.2f} GiB", bytes / gib);
}

/// Largest message of an engine's own allreduce (custom_all_reduce of SGLang and vLLM).
constexpr double own_message = 8 * mib;

class Ledger {
 public:
  explicit Ledger(const RunConfig& config) : config_(config), spec_(config.engine.memory) {}

  MemoryBudget run() {
    rule_ = memory_rule(spec_, config_.engine.preset, config_.engine.version);
    out_.rule = name_of(rule_);
    out_.source = memory_rule_source(rule_);
    before_weights();
    model();
    share();
    pool();
    after();
    warn();
    compare();
    return std::move(out_);
  }

 private:
  /// A figure of a log takes the place of the computed one, and both are shown.
  double given_or(const char* name, const std::optional<double>& gib_given, double computed, bool& given) {
    given = gib_given.has_value();
    if (given) out_.compared.push_back({name, "GiB", *gib_given, computed / gib});
    return given ? *gib_given * gib : computed;
  }

  void before_weights() {
    const GpuSpec& gpu = config_.machine.gpu;
    out_.board = gpu.memory_gib.value * gib;
    out_.usable = gpu.usable_gib ? gpu.usable_gib->value * gib : out_.board;
    out_.context = spec_.context_gib.value * gib;
    if (config_.parallel.tensor > 1) {
      nccl();
      own_allreduce();
    }
    out_.free_before = given_or("free before weights", spec_.measured.free_gib,
                                out_.usable - out_.context - out_.comm_bytes(), out_.free_given);
  }

  void nccl() {
    const int ranks = static_cast<int>(config_.parallel.tensor);
    comm::NcclBuffers b;
    const comm::Topology topology = comm::build_topology(config_.machine.fabric);
    if (spec_.nccl.channels)
      b.channels = *spec_.nccl.channels.value;
    else if (!comm::nccl_lacks_graph(topology, ranks))
      b.channels = comm::nccl_node(topology, ranks).channels;
    b.peers = spec_.nccl.peers;
    b.simple_bytes = spec_.nccl.buffer_mib * mib;
    const double all = nccl_buffer_bytes(b) * static_cast<double>(spec_.nccl.communicators);
    out_.comm.push_back({"NCCL", all,
                         formatted("{} communicator{}, {} channels, {} peer{} each: LL, LL128 and Simple of {} MiB",
                                   spec_.nccl.communicators, spec_.nccl.communicators == 1 ? "" : "s", b.channels,
                                   b.peers, b.peers == 1 ? "" : "s", spec_.nccl.buffer_mib)});
  }

  /// What carries allreduces beside NCCL, each backend once.
  std::vector<std::string> carriers() const {
    std::vector<std::string> asked, out;
    for (const CommRule& row : config_.comm.rows()) asked.push_back(row.backend);
    if (asked.empty()) asked.push_back(config_.comm.pick(1));
    const auto add = [&](const std::string& id) {
      if (std::find(out.begin(), out.end(), id) == out.end()) out.push_back(id);
    };
    for (const std::string& id : asked) {
      if (id == "auto")
        for (const std::string& one : cheapest_picks()) add(one);
      else
        add(id == "engine-default" ? engine_pick() : id);
    }
    return out;
  }

  /// What `auto` takes for a decode step, a verify pass and a chunk of a prompt.
  std::vector<std::string> cheapest_picks() const {
    std::vector<std::string> out;
    comm::Pricer pricer(comm::build_topology(config_.machine.fabric));
    const double row = static_cast<double>(config_.stack.hidden) * bytes_of(DType::bf16);
    for (const std::int64_t tokens :
         {config_.workload.batch, config_.workload.batch * config_.speculation.verify_tokens(), chunk_tokens()}) {
      comm::Call call{comm::Collective::all_reduce, static_cast<int>(config_.parallel.tensor),
                      static_cast<std::int64_t>(static_cast<double>(tokens) * row), DType::bf16, true};
      call.own = config_.own_kernels();
      try {
        out.push_back(comm::choose("auto", config_.comm.engine, pricer, call).used);
      } catch (const InputError&) {  // the run itself says that nothing serves
      }
    }
    return out;
  }

  std::string engine_pick() const {
    const auto bytes = static_cast<std::int64_t>(static_cast<double>(config_.stack.hidden) * bytes_of(DType::bf16));
    const comm::Call call{comm::Collective::all_reduce, static_cast<int>(config_.parallel.tensor), bytes, DType::bf16,
                          true};
    try {
      return comm::engine_default(config_.comm.engine, comm::build_topology(config_.machine.fabric), call);
    } catch (const InputError&) {
      return "nccl";  // the run itself says why its choice launches nothing
    }
  }

  void own_allreduce() {
    const int ranks = static_cast<int>(config_.parallel.tensor);
    const bool python = config_.engine.preset != EnginePreset::trtllm;
    bool engines_own = false;
    for (const std::string& id : carriers()) {
      if (id == "nccl_sym" && config_.engine.preset == EnginePreset::sglang) {
        out_.comm.push_back({"symmetric memory", 4 * gib, "allocated ahead (SGLANG_SYMM_MEM_PREALLOC_GB_SIZE 4)"});
      } else if (python && (id == "pull1" || id == "rsag")) {
        if (engines_own) continue;
        engines_own = true;
        out_.comm.push_back({"custom allreduce", 3 * own_message,
                             "sums and signals, staging, table of pointers: 8 MiB each (custom_all_reduce)"});
      } else {
        const comm::OwnSettings own = config_.comm.own.value_or(comm::OwnSettings{});
        const comm::Footprint f = comm::footprint_of(id, ranks, static_cast<std::int64_t>(own_message), own);
        const std::string most = own.largest_kib > 0 ? formatted("{} KiB", own.largest_kib) : "8 MiB";
        if (f.known && f.device > 0)
          out_.comm.push_back({id, static_cast<double>(f.device), "calls of up to " + most + " in one piece"});
      }
    }
  }

  void model() {
    const MeasuredMemory& m = spec_.measured;
    out_.weights = given_or("weights of the target", m.weights_gib, weight_memory(config_.stack, config_.parallel),
                            out_.weights_given);
    const KvFootprint target = kv_footprint(config_.stack, config_.parallel);
    out_.kv_per_token = target.bytes_per_token;
    out_.kv_per_sequence = target.bytes_per_sequence;
    if (config_.drafts_with_model()) {
      out_.draft_weights = given_or("weights of the draft", m.draft_gib,
                                    weight_memory(*config_.draft, config_.parallel), out_.draft_given);
      const KvFootprint draft = kv_footprint(*config_.draft, config_.parallel);
      out_.kv_per_token += draft.bytes_per_token;
      out_.kv_per_sequence += draft.bytes_per_sequence;
    }
    out_.chunk_tokens = chunk_tokens();
    out_.activations = given_or("activations", m.activations_gib, activations(), out_.activations_given);
    const CaptureEstimate capture = capture_estimate(config_);
    out_.graphs = given_or("graphs", m.graph_gib, capture.bytes, out_.graphs_given);
    out_.graphs_how = capture.how;
  }

  std::int64_t chunk_tokens() const {
    if (spec_.chunk_tokens) return *spec_.chunk_tokens.value;
    return config_.engine.preset == EnginePreset::sglang ? sglang_chunk_tokens(board_mib()) : 8192;
  }

  /// Every buffer of a prefill of one chunk, held at once.
  double activations() const {
    const PassShape shape{PassKind::prefill, config_.parallel.attention_data,
                          std::max<std::int64_t>(out_.chunk_tokens / config_.parallel.attention_data, 1), 0};
    double bytes = 0;
    for (const Buffer& b : build_plan(config_.stack, config_.parallel, shape).buffers) bytes += b.bytes();
    return bytes;
  }

  double board_mib() const { return std::round(out_.board / mib); }

  void share() {
    if (spec_.fraction) {
      out_.fraction.value = *spec_.fraction.value;
      return;
    }
    out_.automatic = true;
    if (rule_ == MemoryRule::utilisation || rule_ == MemoryRule::free_share) {
      out_.fraction.value = 0.9;
      return;
    }
    ReserveQuery q;
    q.gpu_mib = board_mib();
    q.tensor = config_.parallel.tensor;
    q.attention_data = config_.parallel.attention_data;
    q.max_batch = captured_sizes_limit();
    q.chunk_tokens = spec_.chunk_tokens.value_or(0);
    q.piecewise_sizes = spec_.piecewise_sizes;
    q.draft = config_.drafts_with_model() ? DraftReserve::layer : DraftReserve::none;
    if (config_.stack.vision) {
      q.vision_layers = config_.stack.vision->layers;
      q.vision_hidden = config_.stack.vision->hidden;
    }
    q.mla_prefill_graphs = spec_.mla_prefill_graphs;
    q.deepep = spec_.deepep;
    q.after_capture = spec_.after_capture;
    out_.fraction = sglang_fraction(rule_, q);
  }

  /// cuda-graph-max-bs: what was asked for, on the grid or not.
  std::int64_t captured_sizes_limit() const {
    if (config_.engine.graph.max_batch) return *config_.engine.graph.max_batch.value;
    return captured_sizes(config_, config_.speculative()).largest();
  }

  void pool() {
    const double both = out_.weights + out_.draft_weights;
    const double f = out_.fraction.value;
    out_.graphs_in_pool =
        rule_ == MemoryRule::utilisation && spec_.graph_estimate.value_or(is_since(config_.engine.version, "0.21"));
    if (rule_ == MemoryRule::utilisation)
      out_.kv = f * out_.usable - (out_.usable - out_.free_before) - both - out_.activations -
                (out_.graphs_in_pool ? out_.graphs : 0);
    else if (rule_ == MemoryRule::free_share)
      out_.kv = f * (out_.free_before - both - out_.activations);
    else  // the draft's weights come later, out of the reserve
      out_.kv = out_.free_before - out_.weights - out_.free_before * (1 - f);
    const bool token_by_token = config_.engine.preset == EnginePreset::sglang;
    const std::int64_t page = spec_.page_tokens.value_or(token_by_token                                ? 1
                                                         : config_.engine.preset == EnginePreset::vllm ? 16
                                                                                                       : 32);
    const std::int64_t groups = config_.parallel.attention_data;
    const std::int64_t batch = (config_.workload.batch + groups - 1) / groups;
    out_.kv_tokens = pool_tokens(out_.kv - static_cast<double>(batch) * out_.kv_per_sequence, out_.kv_per_token, page);
    out_.request_tokens = config_.workload.prompt_tokens + config_.workload.output_tokens +
                          (config_.speculative() ? config_.speculation.verify_tokens() : 0);
    const std::int64_t in_pages = (out_.request_tokens + page - 1) / page * page;
    const double one = static_cast<double>(in_pages) * out_.kv_per_token + out_.kv_per_sequence;
    if (out_.kv > 0 && one > 0) out_.largest_batch = static_cast<std::int64_t>(out_.kv / one) * groups;
    if (out_.kv_per_token <= 0 && out_.kv > 0) out_.kv_tokens = out_.largest_batch * out_.request_tokens;
  }

  void after() {
    const double pool = std::max(out_.kv, 0.0);
    const double later = out_.weights + out_.draft_weights + pool + out_.graphs + out_.activations;
    out_.process = out_.usable - out_.free_before + later;
    out_.left = out_.free_before - later;
  }

  void warn() {
    if (!out_.serves()) return;
    auto& w = out_.warnings;
    if (out_.graphs > out_.left)
      w.push_back(
          formatted("memory: CUDA graphs take {} and leave {} free", memory_text(out_.graphs), memory_text(out_.left)));
    if (config_.workload.batch > out_.largest_batch)
      w.push_back(formatted(
          "memory: the KV pool holds {} tokens: of {} requests of {} tokens {} run at once, the others wait; what is "
          "priced is all {} at once, as a larger pool would allow",
          grouped(out_.kv_tokens), config_.workload.batch, grouped(out_.request_tokens), out_.largest_batch,
          config_.workload.batch));
    else if (out_.kv < 0.02 * out_.usable)
      w.push_back(
          formatted("memory: the KV pool is {:.1f} % of the GPU: {} tokens in all, and no request can be longer",
                    100 * out_.kv / out_.usable, grouped(out_.kv_tokens)));
  }

  void compare() {
    const ReportedMemory& r = spec_.reported;
    const auto put = [&](const char* name, const std::optional<double>& reported, double modelled, const char* unit) {
      if (reported) out_.compared.push_back({name, unit, *reported, modelled});
    };
    put("weights", r.weights_gib, (out_.weights + out_.draft_weights) / gib, "GiB");
    put("communicators", r.comm_gib, out_.comm_bytes() / gib, "GiB");
    put("graphs", r.graph_gib, out_.graphs / gib, "GiB");
    put("KV pool", r.kv_gib, out_.kv / gib, "GiB");
    put("KV pool", r.kv_tokens, static_cast<double>(out_.kv_tokens), "tokens");
    put("left free", r.free_gib, out_.left / gib, "GiB");
    put("the whole process", r.process_gib, out_.process / gib, "GiB");
  }

  const RunConfig& config_;
  const MemorySpec& spec_;
  MemoryRule rule_{};
  MemoryBudget out_;
};

}  // namespace

MemoryBudget memory_budget(const RunConfig& config) { return Ledger(config).run(); }

}  // namespace specstep
