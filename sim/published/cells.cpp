// Reading of the published tables, and the runs that stand beside them.
#include "sim/published/cells.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "comm/table/csv.h"
#include "model/base/formatted.h"
#include "sim/engine/benchmark.h"
#include "sim/executor.h"
#include "sim/test_configs.h"

namespace specstep::published {

namespace {

const std::string traces = std::string(SPECSTEP_SOURCE_DIR) + "/traces/kimi-k2.6/";

/// Constants were fitted to these: decode steps at three batches, and rows of the shortest and the longest context.
const std::set<std::string> fitted_to{"D1692", "D1698", "D1704", "D1740", "D1741", "D1746", "D1747"};

/// Batches whose rows may be fitted to.
const std::set<std::int64_t> fitted_batches{1, 8, 64};

/// KV pool of the engine of April 2026 with drafts and without, tokens, context parallel 1, model length 262,144:
/// local-inference-lab/rtx6kpro@e2c2b95 models/kimi-k26-mtp-long-ctx-wip/README.md.
constexpr std::int64_t pool_tokens_on = 337296, pool_tokens_off = 437520;

std::string cell(const comm::CsvTable& table, const comm::CsvRow& row, const char* column) {
  return row.cells.at(table.column(column));
}

}  // namespace

std::optional<double> cell_number(const std::string& text) {
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc{} || end != text.data() + text.size() || !(value > 0)) return std::nullopt;
  return value;
}

std::int64_t tokens_of(const std::string& text) {
  const bool kilo = text.ends_with('k');
  const std::string digits = kilo ? text.substr(0, text.size() - 1) : text;
  std::int64_t value = 0;
  const auto [end, fault] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (fault != std::errc{} || end != digits.data() + digits.size()) throw Error("no number of tokens: " + text);
  return kilo ? value * 1024 : value;
}

Errors errors_of(const std::vector<Cell>& cells, bool rest) {
  std::vector<double> errors;
  for (const Cell& c : cells)
    if (c.rest == rest) errors.push_back(std::abs(c.error()));
  if (errors.empty()) return {};
  std::sort(errors.begin(), errors.end());
  const std::size_t half = errors.size() / 2;
  const double median = errors.size() % 2 == 1 ? errors[half] : (errors[half - 1] + errors[half]) / 2;
  return {errors.size(), median, errors.back()};
}

Predictions::Predictions() = default;

const RunResult& Predictions::of(const std::string& run, std::int64_t batch, std::int64_t context,
                                 const std::vector<std::string>& sets) {
  std::vector<std::string> all{formatted("workload.batch={}", batch)};
  if (context > 0) all.push_back(formatted("workload.prompt_tokens={}", context));
  all.insert(all.end(), sets.begin(), sets.end());
  std::string key = run;
  for (const std::string& set : all) key += " " + set;
  const auto found = results_.find(key);
  if (found != results_.end()) return found->second;
  const RunConfig config = load_run("kimi-k2.6/" + run, all);
  return results_[key] = run_benchmark(config, *make_executor(config));
}

double Predictions::metric(const std::string& name, const std::string& run, std::int64_t batch, std::int64_t context,
                           const std::vector<std::string>& sets) {
  return of(run, batch, context, sets).metrics.at(name).value;
}

namespace {

/// What one row of the table says, in milliseconds a step or an iteration. An iteration emits 1 + 3 rate tokens of each
/// sequence; rows by context give no rate, and the page's mean survivals stand for it.
Cell cell_of(const comm::CsvTable& table, const comm::CsvRow& row, Predictions& predictions) {
  Cell out;
  out.id = cell(table, row, "id");
  out.batch = table.whole(row, table.column("batch"));
  out.context = table.whole(row, table.column("context"));
  const bool speculative = cell(table, row, "speculative") == "yes";
  const double tok_s = table.number(row, table.column("tok_s"));
  const std::string dcp = cell(table, row, "dcp");
  const std::vector<std::string> sets{"parallel.context=" + dcp};
  const auto rate = cell_number(cell(table, row, "accept_rate"));
  const RunResult& run = predictions.of(speculative ? "mtp3" : "decode", out.batch, out.context, sets);
  const double length = !speculative ? 1 : rate ? 1 + 3 * *rate : run.metrics.at("speculative.accept_length").value;
  out.measured = static_cast<double>(out.batch) * length / tok_s * 1e3;
  out.predicted = run.metrics.at(speculative ? "speculative.cycle_ms" : "decode.step_ms").value;
  out.fitted = fitted_to.contains(out.id);
  out.rest = out.context > 0 ? !out.fitted : !fitted_batches.contains(out.batch);
  return out;
}

}  // namespace

StepTables step_tables(Predictions& predictions) {
  const comm::CsvTable table = comm::CsvTable::load(traces + "steps.csv");
  StepTables out;
  for (const comm::CsvRow& row : table.rows()) {
    const bool speculative = cell(table, row, "speculative") == "yes";
    const long long dcp = table.whole(row, table.column("dcp"));
    const Cell c = cell_of(table, row, predictions);
    if (dcp > 1 && !speculative) out.split_ranks.push_back(dcp);
    auto& to = dcp > 1         ? (speculative ? out.split_iteration : out.split_decode)
               : c.context > 0 ? (speculative ? out.context_iteration : out.context_decode)
                               : (speculative ? out.iteration : out.decode);
    to.push_back(c);
  }
  for (std::size_t i = 0; i < out.decode.size(); ++i) {
    const Cell& step = out.decode[i];
    const Cell& cycle = out.iteration.at(i);
    out.break_even.push_back({step.id + "/" + cycle.id, 0, step.batch, cycle.measured / step.measured,
                              cycle.predicted / step.predicted, false, step.rest});
  }
  return out;
}

std::vector<Pair> draft_matrix(Predictions& predictions) {
  const comm::CsvTable on = comm::CsvTable::load(traces + "wip_on.csv");
  const comm::CsvTable off = comm::CsvTable::load(traces + "wip_off.csv");
  std::vector<Pair> out;
  for (std::size_t r = 0; r < on.rows().size(); ++r) {
    const std::string name = cell(on, on.rows()[r], "context");
    for (std::size_t i = 1; i < on.columns().size(); ++i) {
      const std::string& users = on.columns()[i];
      Pair p{name, tokens_of(name), tokens_of(users)};
      p.on = cell_number(on.rows()[r].cells[i]);
      p.off = cell_number(cell(off, off.rows().at(r), users.c_str()));
      const auto both = [&](std::int64_t with, std::int64_t without, const std::vector<std::string>& sets) {
        return std::pair(predictions.metric("speculative.tok_s", "wip-mtp3", with, p.context, sets),
                         predictions.metric("decode.tok_s", "wip-decode", without, p.context, sets));
      };
      // All users of a cell have the same context: a run of ten seconds has no time to compute it for each.
      std::tie(p.predicted_on, p.predicted_off) =
          both(p.users, p.users, {formatted("workload.shared_prefix_tokens={}", p.context)});
      const std::int64_t each = p.context + 256;
      p.pool_sequences = pool_tokens_on / each;
      if (p.pool_sequences < p.users)
        std::tie(p.pool_on, p.pool_off) = both(p.pool_sequences, std::min(p.users, pool_tokens_off / each), {});
      out.push_back(p);
    }
  }
  return out;
}

std::vector<SwapCell> swap_matrix(Predictions& predictions) {
  const comm::CsvTable table = comm::CsvTable::load(traces + "custom.csv");
  std::vector<SwapCell> out;
  for (const comm::CsvRow& row : table.rows()) {
    const std::int64_t context = tokens_of(cell(table, row, "context"));
    const std::int64_t users = table.whole(row, table.column("concurrency"));
    const std::vector<std::string> shared{formatted("workload.shared_prefix_tokens={}", context)};
    const bool custom = cell(table, row, "custom") == "on";
    auto found = std::find_if(out.begin(), out.end(),
                              [&](const SwapCell& c) { return c.context == context && c.users == users; });
    if (found == out.end()) {
      out.push_back({context, users, "", {}, {}, 0, 0});
      found = out.end() - 1;
      found->predicted_on = predictions.metric("speculative.tok_s", "custom-on", users, context, shared);
      found->predicted_off = predictions.metric("speculative.tok_s", "custom-off", users, context, shared);
    }
    const std::string text = cell(table, row, "tok_s");
    (custom ? found->on : found->off) = cell_number(text);
    if (!cell_number(text)) found->text = text;
  }
  return out;
}

}  // namespace specstep::published
