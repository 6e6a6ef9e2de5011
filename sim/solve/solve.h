// Questions turned round: from which acceptance on speculation pays, how many drafts are best, which allreduce time
// would change the answer, what the speed hangs on, and what other backends would give.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/report/result.h"

namespace specstep {

struct SolveOptions {
  std::vector<std::int64_t> batches{1, 2, 4, 8, 16, 32, 64, 128};
  std::vector<std::int64_t> contexts;  // beside that of the run
  std::vector<std::int64_t> draft_lengths{1, 2, 3, 4, 5, 6, 7, 8};
};

/// The run as it is, in the middle of its generation.
struct SolveVerdict {
  double plain_tok_s = 0;
  double step_seconds = 0, cycle_seconds = 0, verify_seconds = 0;
  double break_even_length = 0;
  std::optional<double> break_even_rate;  // none: more than all drafts accepted
  // What follows needs an acceptance.
  std::optional<double> accept_length;
  double tok_s = 0;
  /// "verify moe", "draft", ...: what a cycle takes beyond the plain steps for as many tokens; above 0 costs more. Sum:
  /// cycle - accept_length x step; largest magnitude first.
  std::vector<CycleTerm> terms;
  std::size_t decides = 0;  // of terms: the largest of the sign that won
  bool alone = false;       // without that term the answer would be the other one
};

/// Allreduce times at which the answer turns, microseconds. Of `cycle` those of plain decode stay as they are; of `all`
/// every allreduce takes the same time.
struct SolveAllreduce {
  double decode_us = 0, verify_us = 0;  // as priced
  std::int64_t in_verify = 0, in_decode = 0;
  double largest_us = 0;                            // looked at
  std::optional<double> cycle_pays_up_to_us;        // none: not even at 0
  std::vector<std::pair<double, double>> all_pays;  // ranges within 0 to largest_us
};

struct BreakEvenRow {
  std::int64_t batch = 1, context = 0;
  std::string error;     // why there is nothing else
  bool fits = true;      // in the engine's pool of cached tokens
  bool admitted = true;  // no more sequences than engine.max_sequences
  double length = 0;
  std::optional<double> rate;
  double step_seconds = 0, cycle_seconds = 0, verify_seconds = 0;
};

struct LengthChoice {
  std::int64_t draft_length = 1;
  double accept_length = 1, break_even_length = 1, tok_s = 0;
};
struct DraftLengthRow {
  std::int64_t batch = 1;
  std::string error;
  double plain_tok_s = 0;
  std::int64_t best = 0;  // 0: plain decode is faster than any
  double tok_s = 0;       // of the best, which may be plain decode
  std::vector<LengthChoice> lengths;
};

/// d log(tok/s) / d log(input): +1 means that 1 % more gives 1 % more.
struct SensitivityRow {
  std::string input;
  double value = 0;
  std::string step;  // of inputs that are whole numbers: what was compared
  double plain = 0;
  std::optional<double> speculative;
};

struct BackendAnswer {
  std::string backend;
  std::string refusal;  // why there is nothing else
  double decode_us = 0, verify_us = 0;
  double step_seconds = 0, verify_seconds = 0;
  double plain_tok_s = 0;
  std::optional<double> tok_s;
  std::optional<double> break_even_length;
};

struct SolveResult {
  RunConfig config;
  std::int64_t context = 0;
  std::int64_t kv_tokens = 0;  // that the engine's pool holds on a rank
  bool free_draft = false;     // the run does not speculate: cycles are a verify pass alone
  SolveVerdict verdict;
  SolveAllreduce allreduce;
  std::vector<BreakEvenRow> break_even;       // by batch, then context
  std::vector<DraftLengthRow> draft_lengths;  // empty without an acceptance, and for trees
  std::vector<SensitivityRow> sensitivity;    // largest magnitude first; what moves nothing is left out
  std::size_t inert = 0;                      // inputs left out
  std::vector<BackendAnswer> backends;
  std::vector<std::string> notes;
};

/// Prices, whatever measure.executor says. A run without speculation is answered for drafts that cost nothing. Throws
/// InputError and Error as a run of the config does.
SolveResult solve(const RunConfig& config, const SolveOptions& options);

/// "specstep.solve/1" (docs/solve.md).
nlohmann::ordered_json to_json(const SolveResult& result);
/// table,batch,context,draft_length,name,metric,value
std::string to_csv(const SolveResult& result);
/// One screen.
std::string to_text(const SolveResult& result);

}  // namespace specstep
