#include "sim/cuda/in_situ.h"

#include <algorithm>
#include <limits>
#include <new>

#include "model/base/formatted.h"
#include "sim/cuda/median.h"

namespace specstep::cuda {

std::optional<ClockOffset> offset_of(const PingPong& exchange) {
  std::optional<ClockOffset> out;
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < PingPong::rounds; ++i) {
    if (exchange.returned[i] == 0 || exchange.answered[i] == 0) continue;
    const auto sent = static_cast<double>(exchange.sent[i]);
    const double trip = static_cast<double>(exchange.returned[i]) - sent;
    if (trip < 0 || trip >= best) continue;
    best = trip;
    out = ClockOffset{static_cast<double>(exchange.answered[i]) - (sent + trip / 2),
                      trip / 2 + 2 * static_cast<double>(exchange.least_tick)};
  }
  return out;
}

InSitu split(const std::vector<Stamps>& stamps, const std::vector<ClockOffset>& clocks) {
  InSitu out;
  std::vector<double> transfers, waits;
  // Of two ranks' times both errors count.
  double largest = 0, second = 0;
  for (const ClockOffset& clock : clocks) {
    second = std::max(second, std::min(largest, clock.error));
    largest = std::max(largest, clock.error);
  }
  out.clock_error = (largest + second) * clock_count;
  for (std::size_t i = 0; i < stamps.front().size(); ++i) {
    double first = std::numeric_limits<double>::infinity();
    double last = -first, departed = -first;
    for (std::size_t r = 0; r < stamps.size(); ++r) {
      const double arrived = stamps[r][i][0] - clocks[r].offset;
      first = std::min(first, arrived);
      last = std::max(last, arrived);
      departed = std::max(departed, stamps[r][i][1] - clocks[r].offset);
    }
    transfers.push_back((departed - last) * clock_count);
    waits.push_back((last - first) * clock_count);
  }
  out.transfer = median(transfers);
  out.wait = median(waits);
  if (out.wait <= out.clock_error) out.wait = 0;
  return out;
}

Clocks::Clocks(Crew& crew) : offsets_(static_cast<std::size_t>(crew.local())) {
  if (crew.local() < crew.ranks()) {
    refused_ = "ranks are processes, whose GPUs share no memory to compare clocks through";
    return;
  }
  for (int other = 1; other < crew.local(); ++other) {
    if (crew.devices()[static_cast<std::size_t>(other)] == crew.devices().front()) continue;  // the same clock
    const PinnedBuffer memory(sizeof(PingPong), "comparing clocks");
    auto* shared = new (memory.data()) PingPong;
    crew.run([&](RankDevice& rank) {
      if (&rank == &crew.at(0)) ask(shared, rank.stream());
      if (&rank == &crew.at(other)) answer(shared, rank.stream());
      crew.wait(rank, "comparing clocks");
    });
    const auto offset = offset_of(*shared);
    if (!offset) {
      refused_ = formatted("the clock of rank {} did not answer", other);
      return;
    }
    offsets_[static_cast<std::size_t>(other)] = *offset;
  }
}

}  // namespace specstep::cuda
