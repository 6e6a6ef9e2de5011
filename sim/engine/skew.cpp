// Expected waits from a distribution of delays.
#include "sim/engine/skew.h"

#include <algorithm>
#include <cmath>

#include "model/base/units.h"

namespace specstep {

namespace {

constexpr double z90 = 1.2815515655446004;  // 90 % quantile of the standard normal

double normal_cdf(double z) { return 0.5 * std::erfc(-z / std::sqrt(2.0)); }

/// s of the lognormal through median and p90; 0 when there is only a median.
double spread_of(const DelaySpec& d) {
  return d.p90_us && d.median_us.value > 0 ? std::log(d.p90_us->value / d.median_us.value) / z90 : 0;
}

}  // namespace

double mean_delay(const DelaySpec& delay) {
  const double s = spread_of(delay);
  return delay.median_us.value * us * std::exp(s * s / 2);
}

double expected_largest(const DelaySpec& delay, double n) {
  const double s = spread_of(delay);
  if (n <= 1 || s <= 0) return mean_delay(delay);
  // x = median exp(s z); below `low` F^n is 0 to double precision for n >= 1, so that part is x(low) itself. The
  // integrand peaks near z = s and falls as a normal density does.
  constexpr double low = -9;
  const double high = s + 12;
  constexpr int intervals = 4096;  // Simpson's rule
  const double h = (high - low) / intervals;
  const auto integrand = [&](double z) {
    // 1 - F^n without cancellation where F is close to 1.
    const double above = 0.5 * std::erfc(z / std::sqrt(2.0));
    const double some_above = above < 0.5 ? -std::expm1(n * std::log1p(-above)) : 1 - std::pow(normal_cdf(z), n);
    return some_above * s * std::exp(s * z);
  };
  double sum = integrand(low) + integrand(high);
  for (int i = 1; i < intervals; ++i) sum += (i % 2 == 1 ? 4 : 2) * integrand(low + h * i);
  return delay.median_us.value * us * (std::exp(s * low) + sum * h / 3);
}

double expected_wait(const SkewSpec& skew, bool captured, std::int64_t ranks) {
  const std::optional<DelaySpec>& delay = captured ? skew.captured : skew.eager;
  if (!delay || ranks < 2) return 0;
  return skew.of == SkewOf::wait ? mean_delay(*delay) : expected_largest(*delay, static_cast<double>(ranks));
}

void describe(Fields& f, DelaySpec& d) {
  f.required("median_us", d.median_us, "half of the delays are shorter; without p90_us all are this long");
  f.optional("p90_us", d.p90_us, "nine of ten delays are shorter: lognormal through both");
}

void check(const DelaySpec& d, Checker& c) {
  check_range(c, "median_us", d.median_us, {.min = 0, .max = 1e6});
  if (!d.p90_us) return;
  check_range(c, "p90_us", *d.p90_us, {.min = 0, .max = 1e6});
  if (d.p90_us->value < d.median_us.value) c.fail("p90_us.value", "is below the median", "at least median_us");
  if (d.median_us.value <= 0) c.fail("median_us.value", "is 0 beside a p90", "above 0: the shape is lognormal");
  // Beyond this one collective in a thousand would decide the mean: no report can tell it.
  if (spread_of(d) > 3) c.fail("p90_us.value", "is more than 46 times the median", "a p90 nearer to the median");
}

void describe(Fields& f, SkewSpec& s) {
  f.optional("name", s.name, "name of the observation");
  f.required("source", s.source, "where it comes from: report, date");
  f.required("of", s.of, "wait: from the first rank's arrival to the last one's; rank: the delay of each rank");
  f.optional("ranks", s.ranks, "of wait: ranks among which it was observed; 0 = not told", {.min = 0, .max = 4096});
  f.optional("captured", s.captured, "delays in passes that run as a CUDA graph; left out: ranks arrive together");
  f.optional("eager", s.eager, "delays in passes launched kernel by kernel; left out: ranks arrive together");
}

void check(const SkewSpec& s, Checker& c) {
  if (!s.captured && !s.eager) c.fail("eager", "missing", "delays of eager passes, of captured ones, or of both");
  if (s.of == SkewOf::rank && s.ranks > 0)
    c.fail("ranks", "is given beside of: rank", "0: delays of single ranks hold for any number of them");
}

}  // namespace specstep
