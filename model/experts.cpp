// Zipf's law over experts.
#include "model/experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace specstep {

std::vector<double> expert_chances(const Routing& routing) {
  const auto count = static_cast<std::size_t>(routing.experts);
  const auto top_k = static_cast<double>(routing.top_k);
  if (routing.popularity <= 0 || routing.top_k >= routing.experts)
    return std::vector<double>(count, top_k / static_cast<double>(routing.experts));
  std::vector<double> weights(count), chances(count);
  for (std::size_t i = 0; i < count; ++i) weights[i] = std::pow(static_cast<double>(i + 1), -routing.popularity);
  const auto drawn_by = [&](double time) {
    for (std::size_t i = 0; i < count; ++i) chances[i] = -std::expm1(-weights[i] * time);
    return std::accumulate(chances.begin(), chances.end(), 0.0);
  };
  // The sum grows from 0 to the number of experts: double the time until it passes top_k, then halve the interval.
  double low = 0, high = 1;
  while (drawn_by(high) < top_k) high *= 2;
  for (int i = 0; i < 50; ++i) {
    const double middle = (low + high) / 2;
    (drawn_by(middle) < top_k ? low : high) = middle;
  }
  drawn_by(high);
  return chances;
}

double expected_experts(const Routing& routing, std::int64_t sequences, std::int64_t tokens_each, bool padded) {
  if (routing.experts <= 0 || sequences <= 0 || tokens_each <= 0) return 0;
  const double more = padded ? 1 : 0;
  const double one_text = 1 + static_cast<double>(tokens_each - 1) * (1 - routing.overlap);
  if (routing.popularity <= 0) {
    const auto all = static_cast<double>(routing.experts);
    const double by_one = all * (1 - std::pow(1 - static_cast<double>(routing.top_k) / all, one_text));
    const double missed_by_padding = std::pow(1 - static_cast<double>(routing.top_k) / all, more);
    return all * (1 - std::pow(1 - by_one / all, static_cast<double>(sequences)) * missed_by_padding);
  }
  const double independent = static_cast<double>(sequences) * one_text + more;
  double met = 0;
  for (const double chance : expert_chances(routing)) met += 1 - std::pow(1 - chance, independent);
  return met;
}

namespace {

using Series = std::vector<double>;

/// Product of two power series up to degree `most`.
Series product(const Series& a, const Series& b, std::size_t most) {
  Series out(std::min(a.size() + b.size() - 1, most + 1), 0.0);
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < b.size() && i + j < out.size(); ++j) out[i + j] += a[i] * b[j];
  return out;
}

/// Chances of 0, 1, ... hits in n trials of chance p, up to `most` hits.
Series binomial(std::int64_t n, double p, std::int64_t most) {
  Series out;
  const auto trials = static_cast<double>(n);
  for (std::int64_t hits = 0; hits <= std::min(n, most); ++hits) {
    const auto k = static_cast<double>(hits);
    out.push_back(std::exp(std::lgamma(trials + 1) - std::lgamma(k + 1) - std::lgamma(trials - k + 1) +
                           k * std::log(p) + (trials - k) * std::log1p(-p)));
  }
  return out;
}

/// For a whole number of met experts. Ranks draw independently (binomial), on condition that all draws sum to `met`:
/// P(all <= x) is the share of that sum that truncated ranks can make.
double fullest_of(std::int64_t experts, std::int64_t ranks, std::int64_t met) {
  const std::int64_t each = experts / ranks;
  if (met <= 1 || met >= experts) return static_cast<double>(std::min(met, each));
  const auto sum = static_cast<std::size_t>(met);
  const double p = static_cast<double>(met) / static_cast<double>(experts);
  const double all = binomial(experts, p, met).back();
  std::int64_t x = (met + ranks - 1) / ranks;  // some rank holds as many at least
  double expected = static_cast<double>(x);
  for (; x < std::min(each, met); ++x) {
    Series power{1.0}, square = binomial(each, p, x);
    for (std::int64_t left = ranks; left > 0; left /= 2) {
      if (left % 2 == 1) power = product(power, square, sum);
      if (left > 1) square = product(square, square, sum);
    }
    const double more = 1 - (sum < power.size() ? power[sum] : 0.0) / all;
    if (more < 1e-9) break;
    expected += more;
  }
  return expected;
}

}  // namespace

double fullest_rank(std::int64_t experts, std::int64_t ranks, double met) {
  if (ranks <= 1) return met;
  const auto low = static_cast<std::int64_t>(met);
  const double share = met - static_cast<double>(low);
  const double at_low = fullest_of(experts, ranks, low);
  return share > 1e-12 ? at_low + share * (fullest_of(experts, ranks, low + 1) - at_low) : at_low;
}

}  // namespace specstep
