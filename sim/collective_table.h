// Measured times of collectives on one machine: they stand before the price of the fabric where they were taken.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/pricing.h"
#include "model/base/describe.h"

namespace specstep {

/// How the calls of a measured curve were launched. `both`: the curve serves captured and eager calls, since what it
/// measures (bytes over a slow fabric) hides the launch.
enum class CurveLaunch { captured, eager, both };
template <>
struct EnumNames<CurveLaunch> {
  static std::vector<std::string> names() { return {"captured", "eager", "both"}; }
};

struct CollectivePoint {
  std::int64_t bytes = 0;  // message of each rank
  double us = 0;
};

/// Allreduce times of one backend, ascending sizes.
struct CollectiveCurve {
  std::string backend;
  CurveLaunch launch = CurveLaunch::captured;
  std::vector<CollectivePoint> points;
};

struct CollectiveTable {
  std::string name;
  std::string source;
  std::int64_t ranks = 2;
  double above_kib = 0;  // smaller messages are left to the fabric
  std::vector<CollectiveCurve> curves;

  /// Seconds of an allreduce by `backend`, straight in the logarithms between measured sizes; nothing for another
  /// collective, number of ranks or launch, and outside the sizes of the curve.
  std::optional<double> seconds(const std::string& backend, const comm::Call& call) const;
};

void describe(Fields& f, CollectivePoint& p);
void describe(Fields& f, CollectiveCurve& c);
void check(const CollectiveCurve& v, Checker& c);
void describe(Fields& f, CollectiveTable& t);
void check(const CollectiveTable& t, Checker& c);

}  // namespace specstep
