// Calibration. A graph's own start and end cancel in the difference between a long graph and a short one.
#include "comm/cuda/delay_clock.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "comm/cuda/check.h"
#include "comm/cuda/handles.h"
#include "model/base/error.h"
#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep::comm {

namespace {

constexpr int short_nodes = 100;
constexpr int long_nodes = 200;
constexpr int replays = 20;
constexpr double probe_seconds = 10 * us;    // a wait of the size that matters: a small allreduce
constexpr double coarse_seconds = 0.1 * us;  // a globaltimer that steps by more is no clock for waits of microseconds
constexpr std::uint64_t warm_up_nanoseconds = 30'000'000;  // clocks rise from idle within tens of milliseconds
constexpr std::uint64_t watch_nanoseconds = 3'000'000;

/// Seconds of one node: shortest, middle and longest of the replays.
struct NodeTime {
  double low = 0, middle = 0, high = 0;
};

std::vector<double> replay_seconds(cudaGraphExec_t graph, cudaStream_t stream) {
  const Event begin = make_event(), end = make_event();
  std::vector<double> out;
  for (int i = 0; i < replays; ++i) {
    check(cudaEventRecord(begin.get(), stream), "recording an event");
    check(cudaGraphLaunch(graph, stream), "launching a graph of waits");
    check(cudaEventRecord(end.get(), stream), "recording an event");
    check(cudaStreamSynchronize(stream), "waiting for a graph of waits");
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()), "reading an event");
    out.push_back(static_cast<double>(milliseconds) * ms);
  }
  std::sort(out.begin(), out.end());
  return out;
}

NodeTime node_time(Ticker ticker, std::uint64_t ticks, cudaStream_t stream) {
  const auto graph_of = [&](int nodes) {
    return capture(stream, [&] {
      for (int i = 0; i < nodes; ++i) launch_wait(ticker, ticks, {}, stream);
    });
  };
  const GraphExec few = graph_of(short_nodes), many = graph_of(long_nodes);
  replay_seconds(few.get(), stream);
  const std::vector<double> brief = replay_seconds(few.get(), stream);
  const std::vector<double> lasting = replay_seconds(many.get(), stream);
  const double ends = brief[replays / 2];
  const auto node = [&](double seconds) { return (seconds - ends) / (long_nodes - short_nodes); };
  return {node(lasting.front()), node(lasting[replays / 2]), node(lasting.back())};
}

struct FreeDevice {
  void operator()(void* memory) const noexcept { (void)cudaFree(memory); }
};

TickerReading watch(cudaStream_t stream) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, sizeof(TickerReading)), "allocating a reading of the clock");
  const std::unique_ptr<void, FreeDevice> owned(memory);
  auto* on_device = static_cast<TickerReading*>(memory);
  launch_watch(warm_up_nanoseconds, on_device, stream);
  launch_watch(watch_nanoseconds, on_device, stream);
  TickerReading reading;
  check(cudaMemcpyAsync(&reading, memory, sizeof reading, cudaMemcpyDeviceToHost, stream), "reading the clock");
  check(cudaStreamSynchronize(stream), "watching the device's clock");
  if (reading.nanoseconds == 0 || reading.cycles == 0) throw Error("delay: the device's globaltimer stands still");
  return reading;
}

}  // namespace

DelayClock::DelayClock() {
  const Stream stream = make_stream();
  const TickerReading seen = watch(stream.get());
  globaltimer_step_ = static_cast<double>(seen.least_step) * 1e-9;
  ticker_ = globaltimer_step_ <= coarse_seconds ? Ticker::globaltimer : Ticker::clock64;
  tick_seconds_ = 1e-9;
  if (ticker_ == Ticker::clock64)
    tick_seconds_ *= static_cast<double>(seen.nanoseconds) / static_cast<double>(seen.cycles);
  floor_ = node_time(ticker_, 0, stream.get()).middle;
  const auto probe_ticks = static_cast<std::uint64_t>(std::llround(probe_seconds / tick_seconds_));
  const NodeTime probe = node_time(ticker_, probe_ticks, stream.get());
  overhead_ = probe.middle - static_cast<double>(probe_ticks) * tick_seconds_;
  jitter_ = (probe.high - probe.low) / 2;
}

std::uint64_t DelayClock::ticks_for(double node_seconds) const {
  const double wait = node_seconds - overhead_;
  return wait > 0 && node_seconds > floor_ ? static_cast<std::uint64_t>(std::llround(wait / tick_seconds_)) : 0;
}

std::string DelayClock::text() const {
  const std::string source =
      ticker_ == Ticker::globaltimer
          ? formatted("globaltimer, steps of {:.0f} ns", globaltimer_step_ * 1e9)
          : formatted(
                "clock64 at {:.0f} MHz as measured at opening (globaltimer has steps of {:.0f} ns); waits move "
                "with the clock",
                1e-6 / tick_seconds_, globaltimer_step_ * 1e9);
  return formatted("clock {}; a node lasts {:.2f} us beyond its wait, subtracted; floor {:.2f} us, jitter {:.2f} us",
                   source, overhead_ / us, floor_ / us, jitter_ / us);
}

}  // namespace specstep::comm
