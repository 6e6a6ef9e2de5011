// From each way of telling acceptance to a distribution.
#include "model/acceptance_spec.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "model/base/formatted.h"

namespace specstep {

namespace {

std::vector<double> decayed(const DecaySpec& d, std::int64_t drafts) {
  std::vector<double> out;
  double chance = d.first;
  for (std::int64_t i = 0; i < drafts; ++i, chance *= d.ratio) out.push_back(chance);
  return out;
}

double sum_of(const std::vector<std::int64_t>& counts) {
  return static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
}

/// Lengths beyond K + 1 emit K + 1.
Acceptance of_histogram(const HistogramSpec& h, std::int64_t drafts) {
  std::vector<double> weights(static_cast<std::size_t>(drafts + 1));
  for (std::size_t i = 0; i < h.counts.size(); ++i)
    weights[std::min(i, weights.size() - 1)] += static_cast<double>(h.counts[i]);
  weights.back() += std::max(0.0, static_cast<double>(h.total) - sum_of(h.counts));
  return Acceptance::of_weights(weights);
}

TraceWalk walk_of(const TraceSpec& t, std::int64_t drafts) {
  return walk_trace(t.lengths, t.tokens > 0 ? t.tokens : std::numeric_limits<std::int64_t>::max(), drafts,
                    t.of == RecordOf::position);
}

Acceptance of_trace(const TraceSpec& t, std::int64_t drafts) {
  std::vector<double> weights(static_cast<std::size_t>(drafts + 1));
  for (const std::int64_t step : walk_of(t, drafts).steps) weights[static_cast<std::size_t>(step - 1)] += 1;
  return Acceptance::of_weights(weights);
}

/// The published length whose draft length is nearest.
const LengthAt& nearest(const AcceptanceDataset& d, std::int64_t drafts) {
  return *std::min_element(d.lengths.begin(), d.lengths.end(), [drafts](const LengthAt& a, const LengthAt& b) {
    return std::abs(a.drafts - drafts) < std::abs(b.drafts - drafts);
  });
}

Acceptance of_dataset(const AcceptanceDataset& d, std::int64_t drafts) {
  if (!d.survival.empty()) return Acceptance(d.survival).at(drafts);
  if (d.decay) return Acceptance::of_conditional(decayed(*d.decay, drafts));
  const LengthAt& known = nearest(d, drafts);
  return Acceptance::of_length(known.length, known.drafts).at(drafts);
}

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

/// round(Normal(mean, 1)) clamped to [1, K + 1], one draw for the whole batch.
Acceptance multinomial(double mean, std::int64_t drafts) {
  std::vector<double> weights;
  for (std::int64_t j = 1; j <= drafts + 1; ++j) {
    const double below = j == 1 ? 0 : normal_cdf(static_cast<double>(j) - 0.5 - mean);
    const double upto = j == drafts + 1 ? 1 : normal_cdf(static_cast<double>(j) + 0.5 - mean);
    weights.push_back(upto - below);
  }
  return Acceptance::of_weights(weights, true);
}

/// The floor or the ceiling of the mean, so often that the mean comes out.
Acceptance match_expected(double mean, std::int64_t drafts) {
  std::vector<double> weights(static_cast<std::size_t>(drafts + 1));
  const double floor = std::floor(mean);
  const auto at = static_cast<std::size_t>(floor) - 1;
  weights[at] = 1 - (mean - floor);
  if (at + 1 < weights.size()) weights[at + 1] = mean - floor;
  return Acceptance::of_weights(weights, true);
}

Acceptance of_simulated(const SimulatedSpec& s, std::int64_t drafts) {
  const double length = s.length ? *s.length : 1 + static_cast<double>(drafts) * s.rate.value_or(0);
  if (s.method == SimulatedMethod::multinomial) return multinomial(length, drafts);
  if (s.method == SimulatedMethod::match_expected) return match_expected(length, drafts);
  return Acceptance::of_length(length, drafts);
}

}  // namespace

Acceptance acceptance_of(const AcceptanceSpec& a, std::int64_t drafts, const std::optional<DraftTree>& tree) {
  const auto n = static_cast<std::size_t>(drafts);
  const auto first = [n](const std::vector<double>& list) {
    return std::vector<double>(list.begin(), list.begin() + static_cast<std::ptrdiff_t>(std::min(n, list.size())));
  };
  if (!a.survival.empty()) return Acceptance(first(a.survival));
  if (!a.conditional.empty()) return Acceptance::of_conditional(first(a.conditional));
  if (a.rate) return Acceptance::of_conditional(std::vector<double>(n, *a.rate));
  if (!a.ranks.empty()) return Acceptance(tree_survival(a.ranks, tree.value_or(DraftTree{drafts, 1, drafts + 1})));
  if (a.decay) return Acceptance::of_conditional(decayed(*a.decay, drafts));
  if (a.histogram) return of_histogram(*a.histogram, drafts);
  if (a.trace) return of_trace(*a.trace, drafts);
  if (a.dataset) return of_dataset(*a.dataset, drafts);
  if (a.simulated) return of_simulated(*a.simulated, drafts);
  const double length = a.length ? *a.length : 1 + static_cast<double>(drafts) * a.draft_acceptance_rate.value_or(0);
  return Acceptance::of_length(length, drafts);
}

std::vector<double> survival_of(const AcceptanceSpec& a, std::int64_t drafts) {
  return acceptance_of(a, drafts).survival();
}

double accept_length(const AcceptanceSpec& a, std::int64_t drafts) { return acceptance_of(a, drafts).length(); }

namespace {

/// A length of a record or of one rate that needs the other's shape.
void note_record(const char* what, RecordOf of, std::vector<std::string>& out) {
  if (of == RecordOf::position)
    out.push_back(
        formatted("acceptance: the {} counts every position of the texts; verify passes skip positions behind "
                  "long runs, so lengths drawn from it are an approximation (a trace is exact)",
                  what));
}

void note_dataset(const AcceptanceDataset& d, std::int64_t drafts, std::vector<std::string>& out) {
  if (!d.survival.empty()) {
    if (drafts > static_cast<std::int64_t>(d.survival.size()))
      out.push_back(formatted("acceptance of {}: {} drafts are beyond the {} published positions, extrapolated", d.name,
                              drafts, d.survival.size()));
    return;
  }
  const LengthAt& known = nearest(d, drafts);
  if (!d.decay)
    out.push_back(formatted("acceptance of {}: published as a length of {} at {} drafts; one rate is assumed for all{}",
                            d.name, known.length, known.drafts,
                            known.drafts == drafts ? "" : formatted(", also at {}", drafts)));
  else if (std::none_of(d.lengths.begin(), d.lengths.end(), [&](const LengthAt& l) { return l.drafts >= drafts; }))
    out.push_back(formatted("acceptance of {}: {} drafts are beyond the published {}, extrapolated", d.name, drafts,
                            known.drafts));
}

}  // namespace

std::vector<std::string> acceptance_notes(const AcceptanceSpec& a, std::int64_t drafts, bool ngram) {
  std::vector<std::string> out;
  if (a.histogram) note_record("histogram", a.histogram->of, out);
  if (a.dataset) note_dataset(*a.dataset, drafts, out);
  if (a.trace && a.trace->tokens > 0) {
    const auto have = static_cast<std::int64_t>(a.trace->lengths.size());
    const TraceWalk walk = walk_of(*a.trace, drafts);
    if (a.trace->of == RecordOf::position ? have != a.trace->tokens : walk.tokens < a.trace->tokens)
      out.push_back(
          formatted("acceptance: the trace has {} lengths for {} generated tokens; it is walked to the "
                    "shorter, {} tokens in {} verify passes",
                    have, a.trace->tokens, walk.tokens, walk.steps.size()));
  }
  const bool fitted_rate = a.survival.empty() && (a.length || a.draft_acceptance_rate);
  if (ngram && (a.rate || fitted_rate)) {
    const Acceptance one = acceptance_of(a, drafts);
    out.push_back(
        formatted("acceptance: one rate gives length 1 in {:.0f} % of the verify passes at a mean of {:.2f}; "
                  "n-gram drafts miss far more often and run far longer (70 % at a mean of 2.63 on CNN, "
                  "Llama-3.1-8B): give a histogram or a trace where the spread matters",
                  100 * one.distribution().front(), one.length()));
  }
  if (a.simulated && a.simulated->method == SimulatedMethod::multinomial && a.simulated->length) {
    const double length = acceptance_of(a, drafts).length();
    if (std::abs(length - *a.simulated->length) > 0.005)
      out.push_back(formatted("acceptance: multinomial asks for {} and gives {:.3f}: rounding is cut at 1 and {}",
                              *a.simulated->length, length, drafts + 1));
  }
  return out;
}

}  // namespace specstep
