// The search for crossovers between sampled curves.
//
// Between two sizes a curve is a straight line in the logarithms. With a relative uncertainty u of each curve, one is
// surely better where its value times (1 + u) / (1 - u) is below the other; the band is what lies between the last size
// where the one is and the first where the other is.
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

/// Where `below` stops being better than `above`, between two sizes, when `above` is taken `factor` times as large.
double crossing(const Curve& below, const Curve& above, double factor, double low, double high) {
  for (int i = 0; i < 60; ++i) {
    const double middle = std::sqrt(low * high);
    const auto a = value_at(below, middle);
    const auto b = value_at(above, middle);
    if (a && b && *a > factor * *b)
      high = middle;
    else
      low = middle;
  }
  return std::sqrt(low * high);
}

/// The size at which `below` is sure to be worse (step +1), or still sure to be better (step -1), from `from` on.
double sure_size(const Curve& below, const Curve& above, double margin, const std::vector<double>& sizes, double from,
                 int step) {
  double last = from;
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const double size = step > 0 ? sizes[k] : sizes[sizes.size() - 1 - k];
    if (step > 0 ? size < from : size > from) continue;
    const auto a = value_at(below, size);
    const auto b = value_at(above, size);
    if (!a || !b) break;
    const bool sure = step > 0 ? *a > margin * *b : *a * margin < *b;
    if (sure)
      return step > 0 ? crossing(below, above, margin, last, size) : crossing(below, above, 1 / margin, size, last);
    last = size;
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
  const double margin = (1 + uncertainty) / (1 - uncertainty);
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    const Curve* below = best_curve(curves, sizes[i]);
    const Curve* above = best_curve(curves, sizes[i + 1]);
    if (!below || !above || below == above) continue;
    if (!value_at(*above, sizes[i]) || !value_at(*below, sizes[i + 1]))
      continue;  // one of them only starts or ends here
    Crossover x{below->name, above->name, crossing(*below, *above, 1, sizes[i], sizes[i + 1])};
    x.low = sure_size(*below, *above, margin, sizes, x.at, -1);
    x.high = sure_size(*below, *above, margin, sizes, x.at, +1);
    found.push_back(x);
  }
  return found;
}

}  // namespace specstep::comm
