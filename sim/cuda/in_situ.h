// Allreduces inside a pass: when each rank arrives and departs, on one clock.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/cuda/crew.h"
#include "sim/cuda/stamp.h"

namespace specstep::cuda {

/// A rank's clock against that of the first rank: theirs = own - offset, known to within error. Nanoseconds.
struct ClockOffset {
  double offset = 0;
  double error = 0;
};

/// From one exchange: the answer was given between the question and its return. The round trip of the fastest round
/// decides; half of it, and one tick of each clock, are the error. Nothing when no round was completed.
std::optional<ClockOffset> offset_of(const PingPong& exchange);

/// Stamps of one rank, [allreduce][arrival, departure], by its own clock.
using Stamps = std::vector<std::array<double, 2>>;

/// One in-layer allreduce inside a pass, seconds: `transfer` from the last rank's arrival to the last one's departure,
/// `wait` from the first arrival to the last, none where the clocks do not tell it apart; both as medians over the
/// allreduces.
struct InSitu {
  double transfer = 0;
  double wait = 0;
  double clock_error = 0;
  std::string refused;  // why there is no split
};
/// `stamps` and `clocks` by rank. Refused where the clocks are known no better than the transfer is long.
InSitu split(const std::vector<Stamps>& stamps, const std::vector<ClockOffset>& clocks);

/// Offsets of all ranks' clocks, measured by ping-pong; refused with the reason where ranks are processes.
class Clocks {
 public:
  explicit Clocks(Crew& crew);
  const std::vector<ClockOffset>& offsets() const { return offsets_; }
  const std::string& refused() const { return refused_; }

 private:
  std::vector<ClockOffset> offsets_;
  std::string refused_;
};

}  // namespace specstep::cuda
