// What a run found: one value that JSON, text, reports and comparison are made from.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/config.h"
#include "sim/engine/budget.h"
#include "sim/executor.h"

namespace specstep {

/// Equal steps of a pass, all of them together: one kind of step, one operation.
struct StepRow {
  StepKind kind{};
  Op op;  // where a phase is a mean over contexts, that of the pass halfway
  Part part = Part::other;
  std::int64_t count = 0;
  double seconds = 0;
  Cost cost;
  comm::Provenance provenance = comm::Provenance::datasheet;
  bool extrapolated = false;
};

/// 10^9 bytes a second: of a collective its payload, else what the GPU reads and writes. 0 where there is no time.
inline double gb_per_second(const Cost& cost, double seconds) {
  return seconds > 0 ? (cost.comm_bytes > 0 ? cost.comm_bytes : cost.bytes()) / seconds / 1e9 : 0;
}

/// One step of a pass, of the kind of a row.
struct StepPlace {
  std::int32_t layer = no_index;
  std::uint32_t row = 0;
  double seconds = 0;
};

/// The steps of a traced pass. What they leave of a part of its breakdown belongs to no step: launch, skew, host, and
/// of other what the engine spends on layers.
struct PassSteps {
  std::vector<StepRow> rows;     // in order of first appearance
  std::vector<StepPlace> order;  // that of the plan
};

/// One pass of the whole batch on the slowest rank.
struct PhaseResult {
  PassKind kind = PassKind::decode;
  Launch launch = Launch::captured;
  double seconds = 0;
  std::int64_t tokens = 0;      // new tokens of the batch
  double passes_per_cycle = 0;  // 0 for passes that are not part of a cycle
  std::vector<double> samples;  // seconds of each counted run of an executor that measures
  std::int64_t allreduces = 0;  // all
  std::int64_t allreduces_in_layer = 0;
  std::int64_t allreduce_bytes = 0;  // one payload
  double allreduce_seconds = 0;      // one in-layer call
  double in_situ_seconds = 0;        // the same inside the pass, waits for late ranks included; 0: not told
  double wait_seconds = 0;           // of in_situ_seconds, the wait for the last rank
  double host_seconds = 0;           // that the host needs to launch the pass, where that is priced
  Breakdown parts{};
  Cost cost;
  std::int64_t local_experts = 0;         // of a layer that routes; 0: none does
  double experts_expected = 0;            // of those, met by the tokens of a pass
  std::vector<std::int32_t> experts_met;  // the same as met, [routed layer], by executors that compute
  PassSteps steps;
};

struct Metric {
  double value = 0;
  std::vector<double> samples;
  double low = 0, high = 0;
  std::string interval;  // how low and high were formed
};

/// What an executor that computes real tokens generated.
struct GeneratedText {
  std::string digest;                 // of the run's text, drafted where the run speculates
  std::string plain_digest;           // of the same prompts decoded token by token
  std::int64_t first_difference = 0;  // earliest position at which the two part; -1: nowhere
};

/// A term of what a cycle takes beyond a plain decode step.
struct CycleTerm {
  std::string name;
  double seconds = 0;
};

struct RunResult {
  std::string executor;
  RunConfig config;
  std::vector<PhaseResult> phases;
  std::map<std::string, Metric> metrics;
  std::optional<Acceptance> acceptance;      // of a run that speculates
  std::vector<CycleTerm> cycle_terms;        // largest first; sums to cycle - decode step
  std::map<std::string, double> provenance;  // share of the run's time by source
  std::vector<DeviceFacts> devices;          // GPUs that it ran on
  std::optional<MemoryBudget> memory;        // nothing for an executor that measures
  std::optional<GeneratedText> generation;   // nothing for an executor that has no tokens
  std::vector<std::string> notes;            // assumptions a reader must know
};

/// "specstep.result/1" (docs/results.md).
nlohmann::ordered_json to_json(const RunResult& result);
/// metric,value,unit,better,low,high; one row a metric.
std::string to_csv(const RunResult& result);
/// The rows alone, each behind `prefix`; with one more column where `reported` figures are given, empty for others.
std::string csv_rows(const RunResult& result, const std::string& prefix, const std::map<std::string, double>* reported);
/// Chrome trace events, which Perfetto opens, one a line: a process for each phase, its steps behind each other from 0
/// on, then what belongs to no step. Times are whole nanoseconds, in microseconds.
std::string to_timeline(const RunResult& result);
/// As a cell of a CSV file.
std::string csv_field(const std::string& text);

/// Text for a terminal: the metrics, then where the time of each pass goes.
std::string to_text(const RunResult& result);
/// A value with as many digits as a reader needs.
std::string figure_text(double value);

}  // namespace specstep
