// How long a wait must be told to wait, so that its node in a graph lasts as long as wanted.
#pragma once

#include <string>

#include "comm/cuda/delay.h"

namespace specstep::comm {

/// Measured on the current device by graphs of waits, which takes about a tenth of a second.
class DelayClock {
 public:
  DelayClock();

  Ticker ticker() const { return ticker_; }
  /// Ticks to wait in a node that shall last so long; 0 where that is below the floor.
  std::uint64_t ticks_for(double node_seconds) const;
  /// Shortest node: one that does not wait at all.
  double floor_seconds() const { return floor_; }
  /// What a node lasts beyond its wait; subtracted.
  double overhead_seconds() const { return overhead_; }
  /// Half the range of what one node lasted, on average over a graph, from replay to replay.
  double jitter_seconds() const { return jitter_; }
  /// All of that for a result.
  std::string text() const;

 private:
  Ticker ticker_ = Ticker::globaltimer;
  double tick_seconds_ = 0;      // of the chosen clock
  double globaltimer_step_ = 0;  // seconds
  double floor_ = 0, overhead_ = 0, jitter_ = 0;
};

}  // namespace specstep::comm
