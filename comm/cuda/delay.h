// A kernel that lasts as long as it is told.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "comm/cuda/own_part.h"

namespace specstep::comm {

/// The two clocks of a multiprocessor. globaltimer counts nanoseconds whatever the GPU's clock does, but on many cards
/// moves once in a microsecond; clock64 counts cycles, whose rate moves.
enum class Ticker { globaltimer, clock64 };

/// What the clocks were seen to do, of one thread watching globaltimer.
struct TickerReading {
  std::uint64_t least_step = 0;   // globaltimer, nanoseconds
  std::uint64_t nanoseconds = 0;  // watched, from step to step
  std::uint64_t cycles = 0;       // of clock64 in that time
};

/// Copies a rank's own part and ends when `ticks` have passed since it began: one block, more where there is much to
/// copy. A clock that stood still would not hold it for ever: the looks at the clock are counted.
void launch_wait(Ticker ticker, std::uint64_t ticks, const OwnCopy& copy, cudaStream_t stream);

/// Watches globaltimer for about this long and writes what it saw.
void launch_watch(std::uint64_t nanoseconds, TickerReading* reading, cudaStream_t stream);

}  // namespace specstep::comm
