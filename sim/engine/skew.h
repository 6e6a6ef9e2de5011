// Ranks that reach a collective late: how long it waits for the last of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "model/base/quantity.h"

namespace specstep {

/// Delays as a distribution. A median alone: always this long. With a p90: lognormal through both, the shape that heavy
/// tails of host jitter have (mean = median exp(s^2 / 2), s = ln(p90 / median) / 1.2816).
struct DelaySpec {
  Quantity median_us;
  std::optional<Quantity> p90_us;
};

/// What the delays are of. wait: what an allreduce waits from the first rank's arrival to the last one's, as traces
/// report it. rank: how late each rank is by itself, alike and independent; the wait is the largest of them.
enum class SkewOf { wait, rank };
template <>
struct EnumNames<SkewOf> {
  static std::vector<std::string> names() { return {"wait", "rank"}; }
};

/// Arrival of ranks at the allreduces of a pass. Nothing given: they arrive together.
struct SkewSpec {
  std::string name;
  std::string source;
  SkewOf of = SkewOf::wait;
  std::int64_t ranks = 0;  // of: wait; ranks among which it was observed, 0 when that is not told
  std::optional<DelaySpec> captured;
  std::optional<DelaySpec> eager;
};

/// Mean of one delay, seconds.
double mean_delay(const DelaySpec& delay);

/// Expected largest of n independent delays, seconds: the integral of 1 - F(x)^n over x >= 0. n may be any number from
/// 1 on; n = 1 is the mean.
double expected_largest(const DelaySpec& delay, double n);

/// Expected wait for the last of `ranks` ranks at one allreduce, seconds. 0 for one rank and where nothing is given.
double expected_wait(const SkewSpec& skew, bool captured, std::int64_t ranks);

void describe(Fields& f, DelaySpec& d);
void check(const DelaySpec& d, Checker& c);
void describe(Fields& f, SkewSpec& s);
void check(const SkewSpec& s, Checker& c);

}  // namespace specstep
