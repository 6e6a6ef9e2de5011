// Reading of runs, and the faults that only the parts together show.
#include "sim/config.h"

#include <algorithm>

#include "comm/backend.h"
#include "comm/caps.h"
#include "comm/island_plan.h"
#include "model/base/formatted.h"
#include "model/base/units.h"
#include "model/build_plan.h"
#include "sim/capabilities.h"
#include "sim/engine/run_checks.h"
#include "sim/report/metrics.h"

namespace specstep {

const std::vector<CommChoice>& comm_choices() {
  static const std::vector<CommChoice> rows{
      {"engine-default", "what the rules of comm.engine pick for each message"},
      {"auto", "the cheapest backend for each message that gives the sum and can serve it"}};
  return rows;
}

bool is_comm_choice(const std::string& backend) {
  const auto& rows = comm_choices();
  return std::any_of(rows.begin(), rows.end(), [&](const CommChoice& c) { return c.name == backend; });
}

std::string choice_note(const comm::Call& call, const comm::Choice& choice) {
  return formatted("{} of {} B: {} chose {}: {}", name_of(call.kind), grouped(call.bytes), choice.requested,
                   choice.used, choice.reason);
}

const std::string& CommSpec::pick(std::int64_t bytes) const {
  for (const CommRule& rule : rows())
    if (!rule.up_to_kib || static_cast<double>(bytes) <= *rule.up_to_kib * 1024) return rule.backend;
  static const std::string fallback = "nccl";
  return backend ? *backend : fallback;
}

bool RunConfig::drafts_with_model() const {
  return (speculation.method == DraftMethod::eagle3 || speculation.method == DraftMethod::nextn) && draft &&
         draft->has_model();
}

std::optional<comm::OwnSettings> RunConfig::own_kernels() const {
  if (comm.own || measure.executor != ExecutorKind::cuda) return comm.own;
  return comm::OwnSettings{};
}

void describe(Fields& f, CommRule& r) {
  f.optional("up_to_kib", r.up_to_kib, "messages up to this size; left out in the last row",
             {.min = 0, .above_min = true});
  f.required("backend", r.backend, "the backend that carries them");
}

namespace {

void known_backend(const std::string& key, const std::string& id, Checker& c) {
  std::vector<std::string> names;
  for (const comm::BackendRow& row : comm::backends()) names.push_back(row.id);
  for (const CommChoice& choice : comm_choices()) names.push_back(choice.name);
  if (std::find(names.begin(), names.end(), id) == names.end())
    c.fail(key, formatted("unknown backend '{}'{}", id, did_you_mean(id, names)), one_of(names));
}

void check_rows(const std::vector<CommRule>& rows, Checker& c) {
  double last = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string key = formatted("table[{}]", i);
    known_backend(key + ".backend", rows[i].backend, c);
    const bool final_row = i + 1 == rows.size();
    if (!rows[i].up_to_kib && !final_row) c.fail(key + ".up_to_kib", "missing", "only the last row has no limit");
    if (rows[i].up_to_kib && final_row)
      c.fail(key + ".up_to_kib", "limits the last row", "leave it out: the last row takes the rest");
    if (rows[i].up_to_kib && *rows[i].up_to_kib <= last) c.fail(key + ".up_to_kib", "does not grow", "sizes ascending");
    last = rows[i].up_to_kib.value_or(last);
  }
}

}  // namespace

void describe(Fields& f, CommTableFile& t) { f.required("table", t.table, "backend by message size, smallest first"); }

void check(const CommTableFile& t, Checker& c) {
  if (t.table.empty()) c.fail("table", "is empty", "a row or more");
  check_rows(t.table, c);
}

double CommWhatIf::seconds(PassKind kind, double priced) const {
  const bool in_cycle = kind == PassKind::verify || kind == PassKind::draft || kind == PassKind::extend;
  const std::optional<double>& given = in_cycle && cycle_allreduce_us ? cycle_allreduce_us : allreduce_us;
  return allreduce_factor * (given ? *given * us : priced);
}

void describe(Fields& f, CommWhatIf& w) {
  f.optional("allreduce_us", w.allreduce_us, "every allreduce of every pass takes this long", {.min = 0, .max = 1e9});
  f.optional("cycle_allreduce_us", w.cycle_allreduce_us,
             "every allreduce of verify, draft and extend passes does; those of other passes stay",
             {.min = 0, .max = 1e9});
  f.optional("allreduce_factor", w.allreduce_factor, "times that, or times what the backend takes",
             {.min = 0, .max = 1e6});
}

void describe(Fields& f, CommSpec& s) {
  f.optional("backend", s.backend, "backend of every collective (specstep list --backends)");
  f.optional("engine", s.engine, "whose rules backend engine-default follows: sglang, vllm, tensorrt-llm, ...");
  f.optional("table", s.table, "backend by message size, smallest first; overrides backend");
  f.part("table_file", s.table_file, "tables", "the same from a file, as `specstep comm --save-table` writes it",
         false);
  f.optional("probe", s.probe,
             "how auto chooses on GPUs: measured (when the run starts) or priced (as everywhere else)");
  f.optional("embedding_allreduce", s.embedding_allreduce, "sum the vocabulary-parallel embedding over ranks");
  f.optional("logits_gather", s.logits_gather, "gather vocabulary-parallel logits on every rank");
  f.optional("fusion", s.fusion,
             "rmsnorm: allreduces of the layers go on with the residual sum and the norm in one kernel, where the "
             "backend can");
  f.optional("what_if", s.what_if, "prices of allreduces that are not the backend's own, for the cost executor");
  f.optional("nccl", s.nccl, "settings of the NCCL library, where the cuda executor runs nccl");
  f.optional(
      "own", s.own,
      "settings of specstep's own backends, which the cuda executor runs; given, the cost executor prices them too, "
      "where the fabric knows their steps, instead of the kernels that engines ship");
}

namespace {

/// Some backend that may be picked has to fuse; rows of a table whose backend cannot keep the two apart (config_notes).
void check_fusion(const CommSpec& s, Checker& c) {
  if (s.fusion == CommFusion::none) return;
  std::vector<std::string> can, asked;
  for (const comm::BackendRow& row : comm::backends())
    if (comm::caps_of(row.id).fused_rmsnorm) can.push_back(row.id);
  for (const CommRule& rule : s.rows()) asked.push_back(rule.backend);
  if (asked.empty()) asked.push_back(s.pick(1));
  const auto may = [&](const std::string& id) {
    return is_comm_choice(id) || std::find(can.begin(), can.end(), id) != can.end();
  };
  if (std::any_of(asked.begin(), asked.end(), may)) return;
  c.fail("fusion",
         asked.size() == 1 ? formatted("{} cannot go on with a norm inside its allreduce", asked[0])
                           : "no backend of the table can go on with a norm inside its allreduce",
         formatted("none, or {} as the backend", one_of(can)));
}

}  // namespace

void check(const CommSpec& s, Checker& c) {
  if (s.backend) known_backend("backend", *s.backend, c);
  const std::vector<std::string> engines = comm::dispatch_engines();
  if (std::find(engines.begin(), engines.end(), s.engine) == engines.end())
    c.fail("engine", formatted("no dispatch rules for '{}'{}", s.engine, did_you_mean(s.engine, engines)),
           one_of(engines));
  if (s.backend && !s.table.empty())
    c.fail("backend", "is given beside a table", "one of them: comm=" + *s.backend + " replaces the table");
  if (s.table_file && (s.backend || !s.table.empty()))
    c.fail("table_file", formatted("is given beside a {}", s.backend ? "backend" : "table"),
           "one of them; comm={table_file: FILE} puts it in the place of both");
  check_rows(s.table, c);
  check_fusion(s, c);
}

void describe(Fields& f, TreeSpec& t) {
  f.required("steps", t.steps, "depth: most drafts that one verify can accept", {.min = 1, .max = 128});
  f.required("topk", t.topk, "nodes of each step", {.min = 1, .max = 64});
  f.required("verify_tokens", t.verify_tokens, "tokens of a verify pass for each sequence, the root included",
             {.min = 2, .max = 4096});
}

void check(const TreeSpec& t, Checker& c) {
  const std::int64_t nodes = t.topk + (t.steps - 1) * t.topk * t.topk;
  if (t.verify_tokens > nodes + 1)
    c.fail("verify_tokens", formatted("is {}", t.verify_tokens),
           formatted("at most {}: the root and the {} nodes that these steps draft", nodes + 1, nodes));
}

void describe(Fields& f, SpeculationSpec& s) {
  f.optional("method", s.method, "how tokens are drafted; none for plain decode");
  f.optional("draft_length", s.draft_length,
             "K: drafted tokens of a chain, not read with a tree; a verify pass carries K + 1 tokens a sequence",
             {.min = 1, .max = 128});
  f.optional("tree", s.tree, "a tree of drafts instead of a chain");
  f.optional("acceptance", s.acceptance,
             "how many drafts are accepted; an executor that verifies them for real counts instead");
}

void describe(Fields& f, WorkloadSpec& w) {
  f.optional("batch", w.batch, "sequences decoded together", {.min = 1, .max = 1e6});
  f.optional("prompt_tokens", w.prompt_tokens, "tokens of each prompt", {.min = 1, .max = 1e8});
  f.optional(
      "shared_prefix_tokens", w.shared_prefix_tokens,
      "tokens at the start of every prompt that are the same in all: cached once, read by all sequences together",
      {.min = 0, .max = 1e8});
  f.optional("output_tokens", w.output_tokens, "tokens generated for each prompt", {.min = 2, .max = 1e8});
}

void describe(Fields& f, HostSpec& h) {
  f.optional("precision", h.precision, "activations and caches: bf16 rounds them as devices do, f32 keeps them");
  f.optional("seed", h.seed, "of the weights, the prompts and the coins",
             {.min = 0, .max = static_cast<double>(most_seed)});
  f.optional("temperature", h.temperature, "of sampling; 0 is greedy", {.min = 0, .max = 100});
  f.optional("accept", h.accept, "how sampled drafts are accepted: target_only as SGLang, rejection by p / q");
  f.optional(
      "draft_agreement", h.draft_agreement,
      "share of the target's logits mixed into the draft's: 0 is a draft of its own, 1 proposes as the target would",
      {.min = 0, .max = 1});
}

void describe(Fields& f, CudaSpec& c) {
  f.optional("precision", c.precision,
             "bf16 keeps weights in their formats and computes in bf16; f32 is for comparison with the host");
  f.optional("devices", c.devices, "device of each rank of this host; left out: one each, from 0 on", {.min = 0});
  f.optional("generate", c.generate,
             "generate real tokens (small stacks; seed, temperature and agreement as in host) instead of timing passes "
             "that the benchmark puts together");
  f.optional("weight_pool_gib", c.weight_pool_gib,
             "most memory for weights on a device, 0 for what is free; layers that do not fit share the weights of "
             "others",
             {.min = 0});
  f.optional("wait_limit_s", c.wait_limit_s, "a wait that lasts longer ends the run with an error",
             {.min = 0, .max = 86400, .above_min = true});
}

void check(const CudaSpec& s, Checker& c) {
  if (s.generate && s.weight_pool_gib > 0)
    c.fail("weight_pool_gib", "is given beside generate", "0: layers that share weights are another model");
}

void describe(Fields& f, MeasureSpec& m) {
  f.optional("executor", m.executor, "cost prices each step; host computes on the CPU; cuda runs on GPUs");
  f.optional("warmup", m.warmup, "uncounted repetitions of an executor that measures", {.min = 0, .max = 1000000});
  f.optional("runs", m.runs, "counted repetitions of an executor that measures", {.min = 1, .max = 1000000});
  f.optional("host", m.host, "what executors that compute real tokens read");
  f.optional("cuda", m.cuda, "what only the cuda executor reads");
}

void describe(Fields& f, RunConfig& r) {
  f.optional("name", r.name, "name of the run");
  f.optional("note", r.note, "what a reader should know about it");
  f.part("stack", r.stack, "stacks", "the model");
  f.part("draft", r.draft, "drafts", "the draft model", false);
  f.part("machine", r.machine, "machines", "the hardware");
  f.required("parallel", r.parallel, "how the model is split over ranks");
  f.optional("comm", r.comm, "what carries the collectives");
  f.part("engine", r.engine, "engines", "the serving engine", false);
  f.optional("speculation", r.speculation, "speculative decoding");
  f.optional("workload", r.workload, "what is generated");
  f.optional("measure", r.measure, "how the run is carried out");
}

namespace {

void check_draft(const RunConfig& r, Checker& c) {
  const DraftMethod method = r.speculation.method;
  if (method == DraftMethod::none) return;
  const bool needs_model = method == DraftMethod::eagle3 || method == DraftMethod::nextn;
  if (needs_model && !r.draft) {
    c.fail("draft", "missing", name_of(method) + " needs a draft model");
  } else if (needs_model && r.draft->method != method) {
    c.fail("speculation.method", "is " + name_of(method), "the draft's method, " + name_of(r.draft->method));
  } else if (needs_model) {
    const std::int64_t target = r.draft->target_hidden > 0 ? r.draft->target_hidden : r.draft->hidden;
    if (target != r.stack.hidden)
      c.fail("draft", formatted("reads features of width {}", target),
             formatted("the stack's hidden, {}", r.stack.hidden));
    check_layout(*r.draft, r.parallel, c);
  }
  if (r.speculation.tree && !needs_model)
    c.fail("speculation.tree", "is for a draft model", "a chain: " + name_of(method) + " proposes one text");
  if (r.speculation.tree && needs_model && r.draft && r.speculation.tree->topk > r.draft->vocab)
    c.fail("speculation.tree.topk", formatted("is {}", r.speculation.tree->topk),
           formatted("at most the draft's vocabulary, {}", r.draft->vocab));
  if (r.speculation.tree && r.measure.host.temperature > 0 && r.measure.host.accept == AcceptRule::rejection)
    c.fail("measure.host.accept", "rejection does not cover trees", "target_only");
  if (!r.speculation.acceptance && !r.measure.counts_acceptance())
    c.fail("speculation.acceptance", "missing", "how many drafts are accepted: conditional, survival, rate or length");
  else if (r.speculation.acceptance)
    check_acceptance(*r.speculation.acceptance, r.speculation.depth(), c, "speculation.acceptance");
}

/// The host computes real sums, so every backend that may be picked has to move values.
void check_host_backends(const RunConfig& r, Checker& c) {
  if (r.measure.executor != ExecutorKind::host || r.parallel.tensor < 2) return;
  const auto moves = [&](const std::string& key, const std::string& id) {
    if (id == "null" || id == "delay")
      c.fail(key, "'" + id + "' moves no values", "a backend that sums: the host computes real tokens");
  };
  if (r.comm.backend) moves("comm.backend", *r.comm.backend);
  const std::string table = r.comm.table_file ? "comm.table_file.table" : "comm.table";
  for (std::size_t i = 0; i < r.comm.rows().size(); ++i)
    moves(formatted("{}[{}].backend", table, i), r.comm.rows()[i].backend);
}

/// A division of other ranks than those that sum would be none.
void check_islands(const RunConfig& r, Checker& c) {
  if (!r.comm.own || r.comm.own->islands.empty()) return;
  const int ranks = comm::ranks_of(r.comm.own->islands);
  if (ranks != r.parallel.tensor && ranks != r.parallel.attention_tensor())
    c.fail("comm.own.islands", formatted("divide {} ranks", ranks),
           formatted("the {} ranks of parallel.tensor, each in one island", r.parallel.tensor));
}

/// The backend must be able to carry the in-layer allreduce of a decode pass on this fabric.
void check_backend(const RunConfig& r, Checker& c) {
  if (r.parallel.attention_tensor() < 2) return;
  const auto bytes =
      static_cast<std::int64_t>(static_cast<double>(r.workload.batch * r.stack.hidden) * bytes_of(DType::bf16));
  const comm::Call call{
      .ranks = static_cast<int>(r.parallel.attention_tensor()), .bytes = bytes, .own = r.own_kernels()};
  const std::string& id = r.comm.pick(bytes);
  if (id == "auto") return;
  if (const std::string reason = capability_refusal(r, id); !reason.empty())
    return c.fail("comm.backend", reason, "a backend that is there, see 'specstep list --capabilities'");
  const comm::Topology topology = comm::build_topology(r.machine.fabric);
  std::optional<std::string> reason;
  if (id != "engine-default") {
    reason = comm::refusal(id, topology, call);
  } else {
    try {
      comm::engine_default(r.comm.engine, topology, call);
    } catch (const InputError& e) {
      reason = e.issues().front().what;
    }
  }
  if (reason)
    c.fail(r.comm.rows().empty() ? "comm.backend"
           : r.comm.table_file   ? "comm.table_file"
                                 : "comm.table",
           "cannot carry this run: " + *reason, "a backend that can, see 'specstep list --backends'");
}

}  // namespace

void check(const RunConfig& r, Checker& c) {
  if (r.workload.shared_prefix_tokens > r.workload.prompt_tokens)
    c.fail("workload.shared_prefix_tokens", formatted("is {}", r.workload.shared_prefix_tokens),
           formatted("at most prompt_tokens ({})", r.workload.prompt_tokens));
  if (r.engine.kernels.split_attention && r.machine.gpu.multiprocessors.value < 1)
    c.fail("machine.gpu.multiprocessors", "missing", "engine.kernels.split_attention needs it, at least 1");
  check_layout(r.stack, r.parallel, c);
  if (r.parallel.context > 1 && r.measure.executor != ExecutorKind::cost)
    c.fail("parallel.context", formatted("is {}", r.parallel.context),
           formatted("1: the {} executor keeps the whole cache of its heads on each rank; cost prices a split one",
                     name_of(r.measure.executor)));
  if (r.parallel.tensor > r.machine.count)
    c.fail("parallel.tensor", formatted("is {}", r.parallel.tensor),
           formatted("at most the machine's {} GPUs", r.machine.count));
  if (r.parallel.attention_data > r.workload.batch)
    c.fail("parallel.attention_data", formatted("is {}", r.parallel.attention_data),
           formatted("at most the batch ({}): an attention group without a sequence would idle", r.workload.batch));
  check_draft(r, c);
  check_engine(r, c);
  check_host_backends(r, c);
  check_islands(r, c);
  if (r.comm.what_if && r.measure.executor != ExecutorKind::cost)
    c.fail("comm.what_if", "is read by the cost executor only", "measure.executor cost, or leave it out");
  if (r.parallel.tensor <= r.machine.count) check_backend(r, c);
}

}  // namespace specstep
