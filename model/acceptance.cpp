// Survivals, distributions and draws.
#include "model/acceptance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace specstep {

namespace {

double chain_length(double rate, std::int64_t drafts) {
  double sum = 1, survival = 1;
  for (std::int64_t i = 0; i < drafts; ++i) sum += survival *= rate;
  return sum;
}

/// 53 random bits: std distributions differ between libraries.
double coin_of(std::mt19937_64& generator) { return static_cast<double>(generator() >> 11) * 0x1p-53; }

}  // namespace

Acceptance::Acceptance(std::vector<double> survival, bool one_draw)
    : survival_(std::move(survival)), one_draw_(one_draw) {}

Acceptance Acceptance::of_conditional(const std::vector<double>& chances) {
  std::vector<double> survival(chances.size());
  std::partial_sum(chances.begin(), chances.end(), survival.begin(), std::multiplies<>());
  return Acceptance(std::move(survival));
}

Acceptance Acceptance::of_weights(const std::vector<double>& weights, bool one_draw) {
  std::vector<double> survival(weights.size());
  std::partial_sum(weights.rbegin(), weights.rend(), survival.rbegin());
  const double all = survival.front();
  survival.erase(survival.begin());
  for (double& s : survival) s /= all;
  return Acceptance(std::move(survival), one_draw);
}

Acceptance Acceptance::of_length(double length, std::int64_t drafts) {
  double low = 0, high = 1;
  while (high - low > 1e-12) {
    const double middle = (low + high) / 2;
    (chain_length(middle, drafts) < length ? low : high) = middle;
  }
  return of_conditional(std::vector<double>(static_cast<std::size_t>(drafts), (low + high) / 2));
}

double Acceptance::length() const { return std::accumulate(survival_.begin(), survival_.end(), 1.0); }

double Acceptance::rate() const {
  return survival_.empty() ? 0 : (length() - 1) / static_cast<double>(survival_.size());
}

std::vector<double> Acceptance::distribution() const {
  std::vector<double> out;
  double before = 1;
  for (const double s : survival_) {
    out.push_back(before - s);
    before = s;
  }
  out.push_back(before);
  return out;
}

std::int64_t Acceptance::draw(double coin) const {
  return 1 + std::count_if(survival_.begin(), survival_.end(), [coin](double s) { return s > coin; });
}

Acceptance Acceptance::at(std::int64_t drafts) const {
  std::vector<double> out = survival_;
  const auto n = static_cast<std::size_t>(drafts);
  if (n <= out.size() || out.empty()) {
    out.resize(std::min(n, out.size()));
    return Acceptance(std::move(out), one_draw_);
  }
  const std::size_t known = out.size();
  const double first = out.front();
  double chance = known == 1 ? first : out[known - 2] > 0 ? out[known - 1] / out[known - 2] : 0;
  const double ratio =
      known > 1 && first > 0 ? std::min(1.0, std::pow(chance / first, 1 / static_cast<double>(known - 1))) : 1;
  while (out.size() < n) out.push_back(out.back() * (chance *= ratio));
  return Acceptance(std::move(out), one_draw_);
}

std::int64_t AcceptanceSampler::next() { return acceptance_.draw(coin_of(generator_)); }

std::vector<std::int64_t> AcceptanceSampler::next_batch(std::size_t sequences) {
  if (acceptance_.one_draw()) return std::vector<std::int64_t>(sequences, next());
  std::vector<std::int64_t> out(sequences);
  std::generate(out.begin(), out.end(), [this] { return next(); });
  return out;
}

TraceWalk walk_trace(const std::vector<std::int64_t>& lengths, std::int64_t tokens, std::int64_t drafts,
                     bool by_position) {
  TraceWalk out;
  std::size_t at = 0;
  while (at < lengths.size() && out.tokens < tokens) {
    std::int64_t step = std::min({lengths[at], drafts + 1, tokens - out.tokens});
    if (by_position) step = std::min(step, static_cast<std::int64_t>(lengths.size() - at));
    out.steps.push_back(step);
    out.tokens += step;
    at += by_position ? static_cast<std::size_t>(step) : 1;
  }
  return out;
}

}  // namespace specstep
