// What the speed hangs on: each number of the config a little larger and a little smaller.
#include <algorithm>
#include <cmath>

#include "model/base/formatted.h"
#include "sim/solve/numbers.h"
#include "sim/solve/questions.h"

namespace specstep::solving {

namespace {

constexpr double nudge = 1.005;
/// Below this an input counts as moving nothing.
constexpr double least = 5e-5;

struct Speeds {
  double plain = 0;
  double speculative = 0;
};

Speeds speeds_of(const Study& study, const RunConfig& config, const Point& point) {
  const std::int64_t batch = config.workload.batch;
  return {point.plain_tok_s(batch), study.has_acceptance ? point.tok_s(batch) : 0};
}

SensitivityRow row_of(const Study& study, std::string input, double value, std::pair<Speeds, Speeds> from_to,
                      double ratio) {
  const auto& [from, to] = from_to;
  SensitivityRow row{std::move(input), value, "", std::log(to.plain / from.plain) / std::log(ratio), {}};
  if (study.has_acceptance) row.speculative = std::log(to.speculative / from.speculative) / std::log(ratio);
  return row;
}

/// A number of the machine or the engine: everything is priced again. One of the acceptance: nothing is.
SensitivityRow of_number(Study& study, const ConfigNumber& number) {
  const bool same_prices = number.key.starts_with("speculation.");
  const auto speeds = [&](double factor) {
    const RunConfig variant = scaled(study.config, number.key, factor);
    if (same_prices) return speeds_of(study, variant, study.prices.at(variant, study.context));
    return speeds_of(study, variant, study.of(variant, !number.key.starts_with("machine.fabric.")));
  };
  return row_of(study, number.key, number.value, {speeds(1 / nudge), speeds(nudge)}, nudge * nudge);
}

SensitivityRow of_allreduces(Study& study) {
  const auto speeds = [&](double factor) {
    RunConfig variant = study.config;
    CommWhatIf what_if = variant.comm.what_if.value_or(CommWhatIf{});
    what_if.allreduce_factor *= factor;
    variant.comm.what_if = what_if;
    return speeds_of(study, variant, study.of(variant));
  };
  return row_of(study, "comm.what_if.allreduce_factor", 1, {speeds(1 / nudge), speeds(nudge)}, nudge * nudge);
}

/// Batch, context and draft length: whole numbers, compared with a larger one.
void add_whole_numbers(Study& study, std::vector<SensitivityRow>& rows) {
  const RunConfig& c = study.config;
  const Speeds now = speeds_of(study, c, study.base);
  const auto add = [&](const char* name, std::int64_t from, std::int64_t to, const auto& speeds) {
    try {
      const double ratio = static_cast<double>(to) / static_cast<double>(from);
      SensitivityRow row = row_of(study, name, static_cast<double>(from), {now, speeds()}, ratio);
      row.step = formatted("{} to {}", from, to);
      rows.push_back(std::move(row));
    } catch (const Error&) {
      // What a run of the larger number refuses is no neighbour to compare with.
    }
  };
  const std::int64_t drafts = c.speculation.draft_length;
  const auto priced = [&](const RunConfig& config, std::int64_t context) {
    return speeds_of(study, config, study.prices.at(config, context));
  };
  add("workload.batch", study.batch(), 2 * study.batch(),
      [&] { return priced(with(c, 2 * study.batch(), drafts), study.context); });
  const std::int64_t more = study.context + std::max<std::int64_t>(1, study.context / 100);
  if (study.context > 0) add("context", study.context, more, [&] { return priced(c, more); });
  if (!c.speculation.tree && study.has_acceptance)
    add("speculation.draft_length", drafts, drafts + 1,
        [&] { return priced(with(c, study.batch(), drafts + 1), study.context); });
}

double magnitude(const SensitivityRow& row) {
  return std::max(std::abs(row.plain), std::abs(row.speculative.value_or(0)));
}

}  // namespace

std::vector<SensitivityRow> sensitivity(Study& study, std::size_t& inert) {
  std::vector<std::string> wanted{"machine.", "engine."};
  if (study.has_acceptance) wanted.emplace_back("speculation.acceptance.");
  std::vector<SensitivityRow> rows;
  for (const ConfigNumber& number : config_numbers(study.config, wanted))
    if (number.value != 0) rows.push_back(of_number(study, number));
  if (study.base.phase(PassKind::decode)->allreduces > 0) rows.push_back(of_allreduces(study));
  add_whole_numbers(study, rows);
  inert = static_cast<std::size_t>(std::erase_if(rows, [](const auto& row) { return magnitude(row) < least; }));
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return magnitude(a) > magnitude(b); });
  return rows;
}

}  // namespace specstep::solving
