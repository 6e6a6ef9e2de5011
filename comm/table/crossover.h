// Where the best of several curves changes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace specstep::comm {

/// A sampled curve for the search of crossovers.
struct Curve {
  std::string name;
  std::vector<std::pair<std::int64_t, double>> points;
  std::optional<double> uncertainty = {};  // relative error, where it is not that of the other curves
};
/// From `below` to `above` the best curve changes at about `at` bytes; within [low, high] the two cannot be told apart
/// with their uncertainties, whichever of them is ahead, or the table has no size between.
struct Crossover {
  std::string below;
  std::string above;
  double at = 0;
  double low = 0;
  double high = 0;
};
/// `uncertainty` is the relative error of each curve that has none of its own.
std::vector<Crossover> crossovers(const std::vector<Curve>& curves, double uncertainty);

/// The straight line in the logarithms through two points.
double line_at(double x, double x0, double y0, double x1, double y1);

/// Seconds at a size, straight in the logarithms between neighbours; nothing outside the curve.
std::optional<double> value_at(const Curve& curve, double bytes);

/// The name of the cheapest curve at a size; empty outside all of them.
std::string best_at(const std::vector<Curve>& curves, double bytes);

}  // namespace specstep::comm
