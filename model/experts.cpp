// Zipf's law over experts.
#include "model/experts.h"

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

double expected_experts(const Routing& routing, std::int64_t sequences, std::int64_t tokens_each) {
  if (routing.experts <= 0 || sequences <= 0 || tokens_each <= 0) return 0;
  const double one_text = 1 + static_cast<double>(tokens_each - 1) * (1 - routing.overlap);
  if (routing.popularity <= 0) {
    const auto all = static_cast<double>(routing.experts);
    const double by_one = all * (1 - std::pow(1 - static_cast<double>(routing.top_k) / all, one_text));
    return all * (1 - std::pow(1 - by_one / all, static_cast<double>(sequences)));
  }
  const double independent = static_cast<double>(sequences) * one_text;
  double met = 0;
  for (const double chance : expert_chances(routing)) met += 1 - std::pow(1 - chance, independent);
  return met;
}

}  // namespace specstep
