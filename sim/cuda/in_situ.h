// Allreduces inside a pass: when each rank arrives and departs, on one clock.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "sim/cuda/crew.h"
#include "sim/cuda/stamp.h"
#include "sim/executor.h"

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

/// `stamps` and `clocks` by rank.
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
