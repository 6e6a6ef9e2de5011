// What one run is made of, and files that list runs.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/acceptance.h"
#include "model/base/config_io.h"
#include "model/draft.h"
#include "model/pass.h"
#include "model/stack.h"
#include "sim/engine/engine.h"
#include "sim/machine.h"

namespace specstep {

/// A row of a backend table: messages up to this size use this backend. The last row has no limit.
struct CommRule {
  std::optional<double> up_to_kib;
  std::string backend;
};

/// Which backend carries a collective. A list stands for the table alone.
struct CommSpec {
  std::optional<std::string> backend;  // nccl when neither it nor a table is given
  std::vector<CommRule> table;
  bool embedding_allreduce = true;
  bool logits_gather = true;
  /// The backend for a message of `bytes`.
  const std::string& pick(std::int64_t bytes) const;
};

template <>
struct Shorthand<CommSpec> {
  static constexpr std::string_view scalar_key = "backend";
  static constexpr std::string_view list_key = "table";
};

struct SpeculationSpec {
  DraftMethod method = DraftMethod::none;
  std::int64_t draft_length = 3;  // K: drafted tokens of a chain; a verify pass carries K + 1 tokens of each sequence
  std::optional<AcceptanceSpec> acceptance;  // needed when tokens are drafted
};

struct WorkloadSpec {
  std::int64_t batch = 1;
  std::int64_t prompt_tokens = 30;
  std::int64_t output_tokens = 256;
};

enum class ExecutorKind { cost, host, cuda };
template <>
struct EnumNames<ExecutorKind> {
  static std::vector<std::string> names() { return {"cost", "host", "cuda"}; }
};

struct MeasureSpec {
  ExecutorKind executor = ExecutorKind::cost;
  std::int64_t warmup = 2;
  std::int64_t runs = 5;
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
};

/// A reported figure beside its run. `cause_not_modelled` marks a report whose cause the model does not hold yet:
/// the prediction is then what the machine as described would give, not an explanation.
struct StudyRun {
  std::string name;
  RunConfig run;
  std::map<std::string, double> reported;
  std::string cause_not_modelled;
};

struct StudyConfig {
  std::string name;
  std::string source;
  std::vector<StudyRun> runs;
};

void describe(Fields& f, CommRule& r);
void describe(Fields& f, CommSpec& s);
void check(const CommSpec& s, Checker& c);
void describe(Fields& f, SpeculationSpec& s);
void describe(Fields& f, WorkloadSpec& w);
void describe(Fields& f, MeasureSpec& m);
void describe(Fields& f, RunConfig& r);
void check(const RunConfig& r, Checker& c);
void describe(Fields& f, StudyRun& s);
void describe(Fields& f, StudyConfig& s);
void check(const StudyConfig& s, Checker& c);

/// True when the tree is a study: a list of runs.
bool is_study(const yaml::Node& root);

}  // namespace specstep
