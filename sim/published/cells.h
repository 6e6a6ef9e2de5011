// Published figures of one machine beside what this program predicts for them. Part of the tests.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/config.h"
#include "sim/report/result.h"

namespace specstep::published {

/// One published figure and its prediction, in milliseconds or as a ratio.
struct Cell {
  std::string id;  // of its source
  std::int64_t context = 0;
  std::int64_t batch = 0;
  double measured = 0;
  double predicted = 0;
  bool fitted = false;  // a constant was fitted to it
  bool rest = true;     // bounds hold for it: a batch, or a context, of which nothing was fitted
  double error() const { return predicted / measured - 1; }
};

struct Errors {
  std::size_t count = 0;
  double median = 0;
  double largest = 0;
};
/// Of the absolute errors of the cells that bounds hold for, or of the others.
Errors errors_of(const std::vector<Cell>& cells, bool rest);

/// Runs of configs/runs, priced; the same run twice is priced once.
class Predictions {
 public:
  Predictions();
  const RunResult& of(const std::string& run, std::int64_t batch, std::int64_t context,
                      const std::vector<std::string>& sets = {});
  /// One metric of it.
  double metric(const std::string& name, const std::string& run, std::int64_t batch, std::int64_t context,
                const std::vector<std::string>& sets = {});

 private:
  std::map<std::string, RunResult> results_;
};

/// The v4 table: decode steps and iterations of three drafts by batch, contexts at batch 1, ratios of both, and the
/// same steps with the cache split over 4 and 8 ranks.
struct StepTables {
  std::vector<Cell> decode, iteration, break_even;      // context 0, by batch
  std::vector<Cell> context_decode, context_iteration;  // batch 1, by context
  std::vector<Cell> split_decode, split_iteration;      // context parallel 4 and 8
  std::vector<std::int64_t> split_ranks;                // of each cell of the last two
};
StepTables step_tables(Predictions& predictions);

/// A cell of the matrix with and without drafts. Measured figures in tok/s of all users.
struct Pair {
  std::string context_name;
  std::int64_t context = 0, users = 0;
  std::optional<double> on, off;  // nothing where the source has words instead of a number
  double predicted_on = 0, predicted_off = 0;
  std::int64_t pool_sequences = 0;     // whole contexts that the published KV pool holds with drafts
  std::optional<double> pool_on = {};  // predicted with no more than these, where they are fewer than the users
  std::optional<double> pool_off = {};
  bool usable() const { return on && off; }
  double ratio() const { return *on / *off; }
  double predicted_ratio() const { return predicted_on / predicted_off; }
  bool same_sign() const { return (ratio() > 1) == (predicted_ratio() > 1); }
};
std::vector<Pair> draft_matrix(Predictions& predictions);

/// Custom allreduce on or off, three drafts. A cell that holds words has no `measured`.
struct SwapCell {
  std::int64_t context = 0, users = 0;
  std::string text;  // as published, both settings
  std::optional<double> on, off;
  double predicted_on = 0, predicted_off = 0;
  std::optional<double> ratio() const { return on && off ? std::optional(*on / *off) : std::nullopt; }
  double predicted_ratio() const { return predicted_on / predicted_off; }
};
std::vector<SwapCell> swap_matrix(Predictions& predictions);

/// A cell as a number; nothing for words: "skip", "N/A (69/128), raw 151.7".
std::optional<double> cell_number(const std::string& text);
/// "16k" as 16,384.
std::int64_t tokens_of(const std::string& text);

/// docs/kimi-k2.6.md.
std::string page(const StepTables& steps, const std::vector<Pair>& matrix, const std::vector<SwapCell>& swap,
                 Predictions& predictions);

}  // namespace specstep::published
