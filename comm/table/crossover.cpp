// The search for crossovers between sampled curves.
//
// Between two sizes a curve is a straight line in the logarithms. With relative uncertainties u and v of two curves,
// the first is surely better where its value times (1 + u) is below the other's times (1 - v). Curves may cross again:
// the band of a crossover ends where one of the two is surely better, no matter which.
#include "comm/table/crossover.h"

#include <algorithm>
#include <cmath>

namespace specstep::comm {

double line_at(double x, double x0, double y0, double x1, double y1) {
  if (x0 == x1) return y0;
  const double share = (std::log(x) - std::log(x0)) / (std::log(x1) - std::log(x0));
  return y0 * std::pow(y1 / y0, share);
}

std::optional<double> value_at(const Curve& curve, double bytes) {
  for (std::size_t i = 0; i < curve.points.size(); ++i) {
    const auto& [size, seconds] = curve.points[i];
    if (static_cast<double>(size) == bytes) return seconds;
    if (static_cast<double>(size) < bytes) continue;
    if (i == 0) return std::nullopt;
    const auto& [before, earlier] = curve.points[i - 1];
    return line_at(bytes, static_cast<double>(before), earlier, static_cast<double>(size), seconds);
  }
  return std::nullopt;
}

namespace {

const Curve* best_curve(const std::vector<Curve>& curves, double bytes) {
  const Curve* best = nullptr;
  double least = 0;
  for (const Curve& curve : curves) {
    const auto value = value_at(curve, bytes);
    if (!value || (best && *value >= least)) continue;
    best = &curve;
    least = *value;
  }
  return best;
}

std::vector<double> all_sizes(const std::vector<Curve>& curves) {
  std::vector<double> sizes;
  for (const Curve& curve : curves)
    for (const auto& [size, seconds] : curve.points) sizes.push_back(static_cast<double>(size));
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

/// Where `below` stops being better than `above`, between two sizes.
double crossing(const Curve& below, const Curve& above, double low, double high) {
  for (int i = 0; i < 60; ++i) {
    const double middle = std::sqrt(low * high);
    const auto a = value_at(below, middle);
    const auto b = value_at(above, middle);
    if (a && b && *a > *b)
      high = middle;
    else
      low = middle;
  }
  return std::sqrt(low * high);
}

/// Two curves and what is known of their errors.
struct Rivals {
  const Curve& one;
  const Curve& other;
  double uncertainty;

  bool surely_better(double mine, const Curve& my, double theirs, const Curve& their) const {
    return mine * (1 + my.uncertainty.value_or(uncertainty)) < theirs * (1 - their.uncertainty.value_or(uncertainty));
  }
  /// Nothing where one of them has no value.
  std::optional<bool> told_apart(double size) const {
    const auto a = value_at(one, size);
    const auto b = value_at(other, size);
    if (!a || !b) return std::nullopt;
    return surely_better(*a, one, *b, other) || surely_better(*b, other, *a, one);
  }
};

/// The end of the band around a crossover, upwards (step +1) or downwards (step -1) from `from`: the nearest size at
/// which the two are told apart, or the last that both have.
double band_end(const Rivals& rivals, const std::vector<double>& sizes, double from, int step) {
  double last = from;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const double size = step > 0 ? sizes[k] : sizes[sizes.size() - 1 - k];
    if (step > 0 ? size < from : size > from) continue;
    const auto apart = rivals.told_apart(size);
    if (!apart) break;
    if (!*apart) {
      last = size;
      continue;
    }
    double within = last;
    double beyond = size;
    for (int i = 0; i < 60; ++i) {
      const double middle = std::sqrt(within * beyond);
      (rivals.told_apart(middle).value_or(false) ? beyond : within) = middle;
    }
    return beyond;
  }
  return last;
}

}  // namespace

std::string best_at(const std::vector<Curve>& curves, double bytes) {
  const Curve* best = best_curve(curves, bytes);
  return best ? best->name : "";
}

std::vector<Crossover> crossovers(const std::vector<Curve>& curves, double uncertainty) {
  std::vector<Crossover> found;
  const std::vector<double> sizes = all_sizes(curves);
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const Curve* below = best_curve(curves, sizes[i]);
    const Curve* above = best_curve(curves, sizes[i + 1]);
    if (!below || !above || below == above) continue;
    if (!value_at(*above, sizes[i]) || !value_at(*below, sizes[i + 1]))
      continue;  // one of them only starts or ends here
    Crossover x{below->name, above->name, crossing(*below, *above, sizes[i], sizes[i + 1])};
    const Rivals rivals{*below, *above, uncertainty};
    x.low = band_end(rivals, sizes, x.at, -1);
    x.high = band_end(rivals, sizes, x.at, +1);
    found.push_back(x);
  }
  return found;
}

}  // namespace specstep::comm
