// The whole of it, and what other backends would give.
#include "sim/solve/solve.h"

#include "comm/backend.h"
#include "model/base/formatted.h"
#include "model/base/units.h"
#include "sim/capabilities.h"
#include "sim/engine/config_notes.h"
#include "sim/engine/serving.h"
#include "sim/solve/questions.h"

namespace specstep {

namespace solving {

namespace {

BackendAnswer answer_of(Study& study, const std::string& id) {
  BackendAnswer out{.backend = id, .refusal = capability_refusal(study.config, id)};
  if (!out.refusal.empty()) return out;
  RunConfig variant = study.config;
  variant.comm.table.clear();
  variant.comm.table_file.reset();
  variant.comm.backend = id;
  try {
    const Point point = study.of(variant);
    const PhaseResult& verify = *point.phase(PassKind::verify);
    out.decode_us = point.phase(PassKind::decode)->allreduce_seconds / us;
    out.verify_us = verify.allreduce_seconds / us;
    out.step_seconds = point.step;
    out.verify_seconds = verify.seconds;
    out.plain_tok_s = point.plain_tok_s(study.batch());
    out.break_even_length = point.break_even();
    if (study.has_acceptance) out.tok_s = point.tok_s(study.batch());
  } catch (const InputError& e) {
    out.refusal = e.issues().front().what;
  }
  return out;
}

}  // namespace

std::vector<BackendAnswer> backend_answers(Study& study) {
  std::vector<BackendAnswer> out;
  if (study.base.phase(PassKind::decode)->allreduces == 0) return out;
  for (const comm::BackendRow& row : comm::backends())
    if (row.id != "delay")  // stands for another
      out.push_back(answer_of(study, row.id));
  return out;
}

}  // namespace solving

namespace {

/// A run that does not speculate, with drafts that cost nothing: the least that any draft must reach.
RunConfig with_free_draft(RunConfig config) {
  config.speculation.method = DraftMethod::ngram;
  config.speculation.acceptance.reset();
  config.speculation.tree.reset();
  return config;
}

std::vector<std::string> notes_of(const RunConfig& asked, const solving::Study& study, const SolveOptions& options) {
  RunConfig priced = asked;
  priced.measure.executor = ExecutorKind::cost;
  std::vector<std::string> notes = config_notes(priced);
  const SpeculationSpec& s = asked.speculation;
  if (!asked.speculative())
    notes.push_back(formatted(
        "this run does not speculate: answers are for {} drafts that cost nothing, the least any draft model must "
        "reach; for more, --set draft=NAME --set 'speculation={{method: eagle3, draft_length: {}, acceptance: {{rate: "
        "0.7}}}}' (drafts: specstep list)",
        study.depth(), study.depth()));
  else if (!study.has_acceptance)
    notes.emplace_back(
        "no speculation.acceptance: what it takes to pay is told, not whether it pays, and no draft length is best");
  if (asked.measure.executor != ExecutorKind::cost)
    notes.push_back(formatted("priced, although measure.executor is {}", name_of(asked.measure.executor)));
  if (s.tree) notes.emplace_back("a tree: draft lengths are not compared, a chain's acceptance is not a tree's");
  const std::int64_t longest = options.draft_lengths.empty() ? 0 : options.draft_lengths.back();
  if (study.has_acceptance && !s.tree && longest > s.draft_length && !solving::told_at_any_length(*s.acceptance))
    notes.push_back(
        formatted("acceptance beyond draft {} is extrapolated: conditional chances go on changing by the mean ratio of "
                  "those given",
                  s.draft_length));
  const CommSpec& comm = asked.comm;
  if (asked.parallel.tensor > 1 && (comm.nccl || comm.own || comm.fusion != CommFusion::none))
    notes.emplace_back(
        "the table of backends keeps fusion, nccl and own of comm, as --set comm.backend=X does; --set comm=X is a "
        "whole "
        "comm and drops them");
  return notes;
}

}  // namespace

SolveResult solve(const RunConfig& asked, const SolveOptions& options) {
  const MemoryBudget memory = require_start(asked);
  RunConfig config = asked.speculative() ? asked : with_free_draft(asked);
  const bool has_acceptance = config.speculation.acceptance.has_value();
  config = solving::with(config, config.workload.batch, config.speculation.draft_length);
  // In the middle of the generation, where a step takes about its mean time.
  const std::int64_t context = config.workload.prompt_tokens + config.workload.output_tokens / 2;
  solving::Study study{.config = config, .context = context, .has_acceptance = has_acceptance};
  study.base = study.prices.at(config, context);
  SolveResult out{
      .config = asked, .context = context, .kv_tokens = memory.kv_tokens, .free_draft = !asked.speculative()};
  out.verdict = solving::verdict(study);
  out.allreduce = solving::allreduce_times(study);
  out.break_even = solving::break_even(study, options);
  for (BreakEvenRow& row : out.break_even) {
    const std::int64_t groups = asked.parallel.attention_data;
    row.fits = (row.batch + groups - 1) / groups * (row.context + config.speculation.verify_tokens()) <= out.kv_tokens;
    row.admitted = asked.engine.max_sequences == 0 || row.batch <= asked.engine.max_sequences;
  }
  out.draft_lengths = solving::draft_lengths(study, options);
  out.sensitivity = solving::sensitivity(study, out.inert);
  out.backends = solving::backend_answers(study);
  out.notes = notes_of(asked, study, options);
  return out;
}

}  // namespace specstep
