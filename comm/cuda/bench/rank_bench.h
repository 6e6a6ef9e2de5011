// One rank's part in checking and timing a backend's allreduce.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/cuda/device_comm.h"
#include "comm/cuda/handles.h"
#include "comm/measure.h"

namespace specstep::comm {

/// Device memory of the current device.
class DeviceArray {
 public:
  DeviceArray() = default;
  explicit DeviceArray(std::size_t bytes);
  std::byte* data() const { return static_cast<std::byte*>(memory_.get()); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(void* memory) const noexcept { (void)cudaFree(memory); }
  };
  std::size_t bytes_ = 0;
  std::unique_ptr<void, Free> memory_;
};

/// All ranks of a group make the same calls, each with its device current. Every function throws what the backend
/// throws; a refusal of a size (Unsupported) is alike on all ranks and leaves the bench usable.
class RankBench {
 public:
  /// `request`, `group` and `comm` outlive the bench. Allocates for the largest size: nothing is allocated or freed
  /// while other ranks wait on the device.
  RankBench(const MeasureRequest& request, Bootstrap& group, DeviceComm& comm);

  /// Sums of integers, by eager calls and by replays of a graph. `rounding`: 0 for backends that are exact.
  void verify(MeasuredSize& size, double rounding);
  /// Graphs of `request.calls` calls.
  void time(MeasuredSize& size);
  /// Returns when the stream is idle, or after the limit: before what it uses is freed.
  void drain() noexcept;

 private:
  using Launch = std::function<void()>;
  struct Site {
    void* values = nullptr;
    std::int64_t count = 0;
  };

  Site site_of(std::int64_t bytes) const;
  void* values() const { return lent_ ? lent_.get() : values_.data(); }
  void all_reduce(const Site& site) { comm_.all_reduce(site.values, site.count, request_.dtype, stream_.get()); }
  void wait(const std::string& what);
  GraphExec graph_of(const Launch& calls);
  void replay(const GraphExec& graph) const;
  /// Seconds of each launch on the slowest rank, ranks aligned by the launch before.
  std::vector<double> replays(const Launch& launch, const std::string& what);
  std::vector<double> chunk(const Launch& launch, const std::string& what);
  Timing cold(const Site& site, const std::string& what);
  void time_norm(const Site& site, MeasuredSize& size);
  void sweep() const;
  std::vector<double> slowest(const std::vector<double>& mine, const std::string& what);
  SumFaults faults(std::int64_t bytes, double rounding);

  const MeasureRequest& request_;
  Bootstrap& group_;
  DeviceComm& comm_;
  Stream stream_;
  std::vector<Event> events_;
  std::shared_ptr<void> lent_;  // where the backend has memory of its own for values
  DeviceArray values_, given_, sums_;
  DeviceArray residual_, gain_, normed_;  // of rows, where norms are timed
  DeviceArray swept_;                     // of one rank of each device
};

}  // namespace specstep::comm
