// Times of a device's own clock, written by the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace specstep::cuda {

/// Seconds of a count of the clock.
inline constexpr double clock_count = 1e-9;

/// *to = the clock (%globaltimer) when the stream gets there.
void stamp(std::uint64_t* to, cudaStream_t stream);

/// Two devices call each other through memory of the host that both see. Zeroed before each use.
struct PingPong {
  static constexpr int rounds = 64;
  std::uint32_t ping = 0, pong = 0;     // number of the round
  std::uint64_t sent[rounds] = {};      // clock of the one that asks
  std::uint64_t returned[rounds] = {};  //
  std::uint64_t answered[rounds] = {};  // clock of the one that answers
  std::uint64_t least_tick = 0;         // smallest step of the asking clock seen
};
/// One end each, on its own device; both give up when the other does not come within about a second.
void ask(PingPong* shared, cudaStream_t stream);
void answer(PingPong* shared, cudaStream_t stream);

}  // namespace specstep::cuda
