// What one run is made of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/dispatch.h"
#include "comm/nccl_settings.h"
#include "comm/own_settings.h"
#include "model/acceptance_spec.h"
#include "model/base/config_io.h"
#include "model/draft.h"
#include "model/pass.h"
#include "model/stack.h"
#include "sim/engine/engine.h"
#include "sim/machine.h"

namespace specstep {

/// Largest seed: whole numbers up to here are exact wherever they are read.
inline constexpr std::int64_t most_seed = 9'000'000'000'000'000;

/// Words that leave the choice of a backend to a rule.
struct CommChoice {
  std::string name;
  std::string summary;
};
const std::vector<CommChoice>& comm_choices();
bool is_comm_choice(const std::string& backend);
/// What a reader must know of a choice that a rule made.
std::string choice_note(const comm::Call& call, const comm::Choice& choice);

/// A row of a backend table: messages up to this size use this backend. The last row has no limit.
struct CommRule {
  std::optional<double> up_to_kib;
  std::string backend;
};

/// What an allreduce's kernel goes on with: nothing, or the residual sum and the norm of the same rows.
enum class CommFusion { none, rmsnorm };
template <>
struct EnumNames<CommFusion> {
  static std::vector<std::string> names() { return {"none", "rmsnorm"}; }
};

/// A table in a file of its own, as `specstep comm --save-table` writes it.
struct CommTableFile {
  std::vector<CommRule> table;
};

/// How `auto` chooses on GPUs: by measuring the backends that can run there when a run starts, or by price as
/// everywhere else.
enum class CommProbe { measured, priced };
template <>
struct EnumNames<CommProbe> {
  static std::vector<std::string> names() { return {"measured", "priced"}; }
};

/// What-if of prices: allreduces that take another time than their backend's. The rest of a pass stays.
struct CommWhatIf {
  std::optional<double> allreduce_us;        // of every pass
  std::optional<double> cycle_allreduce_us;  // of verify, draft and extend passes
  double allreduce_factor = 1;               // times what the above or the backend gives
  /// Seconds of an allreduce in such a pass that the backend carries in `priced` seconds.
  double seconds(PassKind kind, double priced) const;
};

/// Which backend carries a collective. A list stands for the table alone.
struct CommSpec {
  std::optional<std::string> backend;  // nccl when neither it nor a table is given
  std::vector<CommRule> table;
  std::optional<CommTableFile> table_file;
  CommProbe probe = CommProbe::measured;  // read by the cuda executor, for `auto`
  std::string engine = "sglang";          // whose dispatch rules `engine-default` follows
  bool embedding_allreduce = true;
  bool logits_gather = true;
  CommFusion fusion = CommFusion::none;
  std::optional<CommWhatIf> what_if;       // read by the cost executor
  std::optional<comm::NcclSettings> nccl;  // read by the cuda executor; without it NCCL chooses
  std::optional<comm::OwnSettings> own;    // likewise, for backends of our own; given, they are what is priced
  /// The table, wherever it stands.
  const std::vector<CommRule>& rows() const { return table_file ? table_file->table : table; }
  /// The backend for a message of `bytes`.
  const std::string& pick(std::int64_t bytes) const;
};

template <>
struct Shorthand<CommSpec> {
  static constexpr std::string_view scalar_key = "backend";
  static constexpr std::string_view list_key = "table";
};

/// A tree of drafts, as EAGLE-2 grows it: step 1 takes the `topk` best tokens, each later step the `topk` best of their
/// expansions by accumulated probability; the best verify_tokens - 1 nodes of all steps are verified with the root.
struct TreeSpec {
  std::int64_t steps = 0;
  std::int64_t topk = 0;
  std::int64_t verify_tokens = 0;  // root included
};

struct SpeculationSpec {
  DraftMethod method = DraftMethod::none;
  std::int64_t draft_length = 3;  // K: drafted tokens of a chain; a verify pass carries K + 1 tokens of each sequence
  std::optional<TreeSpec> tree;   // instead of a chain
  std::optional<AcceptanceSpec> acceptance;  // needed when drafts are priced, not counted

  /// Most drafts that one verify can accept; tokens of a verify pass; tokens of one draft step.
  std::int64_t depth() const { return tree ? tree->steps : draft_length; }
  std::int64_t verify_tokens() const { return tree ? tree->verify_tokens : draft_length + 1; }
  std::int64_t draft_width() const { return tree ? tree->topk : 1; }
};

struct WorkloadSpec {
  std::int64_t batch = 1;
  std::int64_t prompt_tokens = 30;
  std::int64_t output_tokens = 256;
  std::int64_t shared_prefix_tokens = 0;  // of the prompt: the same in all, cached once
};

enum class ExecutorKind { cost, host, cuda };
template <>
struct EnumNames<ExecutorKind> {
  static std::vector<std::string> names() { return {"cost", "host", "cuda"}; }
};

/// Type of activations and caches on the host: bf16 rounds them as devices do, f32 leaves them.
enum class HostPrecision { bf16, f32 };
template <>
struct EnumNames<HostPrecision> {
  static std::vector<std::string> names() { return {"bf16", "f32"}; }
};

/// How sampled drafts are accepted. target_only: a candidate is accepted when the coin falls under the target's
/// accumulated chance of the siblings (SGLang). rejection: with min(1, p / q), q the draft's own chance (Leviathan et
/// al. 2023, the standard). Both give the target's distribution.
enum class AcceptRule { target_only, rejection };
template <>
struct EnumNames<AcceptRule> {
  static std::vector<std::string> names() { return {"target_only", "rejection"}; }
};

/// What executors that compute real tokens read: the host, and cuda when it generates (its precision is its own).
struct HostSpec {
  HostPrecision precision = HostPrecision::bf16;
  std::int64_t seed = 1;
  double temperature = 0;
  AcceptRule accept = AcceptRule::target_only;
  double draft_agreement = 0;
};

/// How the cuda executor runs. Seed, temperature, acceptance and agreement of real tokens are those of HostSpec.
struct CudaSpec {
  HostPrecision precision = HostPrecision::bf16;
  /// Devices of the ranks of this process, in order; empty: one each, from device 0 on. A device given twice is shared.
  std::vector<std::int64_t> devices;
  bool generate = false;       // real tokens, as the host does; else passes alone, composed into the benchmark
  double weight_pool_gib = 0;  // most memory that weights take on a device; 0: what is free
  double wait_limit_s = 30;    // a wait that lasts longer ends the run
};

struct MeasureSpec {
  ExecutorKind executor = ExecutorKind::cost;
  std::int64_t warmup = 2;
  std::int64_t runs = 5;
  HostSpec host;
  CudaSpec cuda;

  /// Whether drafts are verified for real, so that acceptance is counted instead of assumed.
  bool counts_acceptance() const {
    return executor == ExecutorKind::host || (executor == ExecutorKind::cuda && cuda.generate);
  }
};

struct RunConfig {
  std::string name;
  std::string note;
  StackSpec stack;
  std::optional<DraftSpec> draft;
  MachineSpec machine;
  ParallelLayout parallel;
  CommSpec comm;
  EngineSpec engine;
  SpeculationSpec speculation;
  WorkloadSpec workload;
  MeasureSpec measure;

  bool speculative() const { return speculation.method != DraftMethod::none; }
  /// Whether passes of a draft model run: speculation by a method that has one.
  bool drafts_with_model() const;
  /// Settings of our own kernels where they are what prices are for: asked for by comm.own, or about to run here.
  std::optional<comm::OwnSettings> own_kernels() const;
};

void describe(Fields& f, CommRule& r);
void describe(Fields& f, CommTableFile& t);
void check(const CommTableFile& t, Checker& c);
void describe(Fields& f, CommWhatIf& w);
void describe(Fields& f, CommSpec& s);
void check(const CommSpec& s, Checker& c);
void describe(Fields& f, TreeSpec& t);
void check(const TreeSpec& t, Checker& c);
void describe(Fields& f, SpeculationSpec& s);
void describe(Fields& f, WorkloadSpec& w);
void describe(Fields& f, HostSpec& h);
void describe(Fields& f, CudaSpec& c);
void check(const CudaSpec& s, Checker& c);
void describe(Fields& f, MeasureSpec& m);
void describe(Fields& f, RunConfig& r);
void check(const RunConfig& r, Checker& c);

}  // namespace specstep
