// What is asked over a grid: break-even by batch and context, the best draft length by batch.
#include <algorithm>

#include "model/base/formatted.h"
#include "sim/solve/questions.h"

namespace specstep::solving {

namespace {

/// Calls `work`; what the run with this batch cannot do becomes the row's error.
template <class Row, class F>
void or_error(Row& row, const RunConfig& config, F&& work) {
  if (config.workload.batch < config.parallel.attention_data) {
    row.error = formatted("needs a batch of {} at least: parallel.attention_data", config.parallel.attention_data);
    return;
  }
  try {
    work();
  } catch (const InputError& e) {
    row.error = e.issues().front().what;
  } catch (const Error& e) {
    row.error = e.what();
  }
}

LengthChoice choice_of(const RunConfig& config, const Point& point) {
  return {config.speculation.depth(), point.accept_length, point.break_even(), point.tok_s(config.workload.batch)};
}

DraftLengthRow lengths_of(Study& study, std::int64_t batch, const std::vector<std::int64_t>& lengths) {
  DraftLengthRow row{.batch = batch};
  or_error(row, with(study.config, batch, study.config.speculation.draft_length), [&] {
    for (const std::int64_t length : lengths) {
      const RunConfig config = with(study.config, batch, length);
      const Point point = study.prices.at(config, study.context);
      if (row.lengths.empty()) row.tok_s = row.plain_tok_s = point.plain_tok_s(batch);
      row.lengths.push_back(choice_of(config, point));
      if (row.lengths.back().tok_s <= row.tok_s) continue;
      row.tok_s = row.lengths.back().tok_s;
      row.best = length;
    }
  });
  return row;
}

}  // namespace

std::vector<BreakEvenRow> break_even(Study& study, const SolveOptions& options) {
  std::vector<std::int64_t> contexts{study.context};
  for (const std::int64_t context : options.contexts)
    if (std::find(contexts.begin(), contexts.end(), context) == contexts.end()) contexts.push_back(context);
  std::vector<BreakEvenRow> rows;
  for (const std::int64_t batch : options.batches)
    for (const std::int64_t context : contexts) {
      BreakEvenRow row{.batch = batch, .context = context};
      const RunConfig config = with(study.config, batch, study.config.speculation.draft_length);
      or_error(row, config, [&] {
        const Point point = study.prices.at(config, context);
        row.length = point.break_even();
        row.rate = rate_for(row.length, study.depth());
        row.step_seconds = point.step;
        row.cycle_seconds = point.cycle;
        row.verify_seconds = point.phase(PassKind::verify)->seconds;
      });
      rows.push_back(std::move(row));
    }
  return rows;
}

std::vector<DraftLengthRow> draft_lengths(Study& study, const SolveOptions& options) {
  std::vector<DraftLengthRow> rows;
  if (!study.has_acceptance || study.config.speculation.tree) return rows;
  for (const std::int64_t batch : options.batches) rows.push_back(lengths_of(study, batch, options.draft_lengths));
  return rows;
}

}  // namespace specstep::solving
