// The words of one rank by which kernels count calls, and by which waits that take too long end and are reported.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "comm/cuda/own/device_group.h"

namespace specstep::comm {

/// Counters on the current device; an order to give up and a report in host memory that the device sees.
class WaitWords {
 public:
  WaitWords();
  ~WaitWords();
  WaitWords(const WaitWords&) = delete;
  WaitWords& operator=(const WaitWords&) = delete;

  /// Puts the addresses into what kernels of this rank get; `group.rank` is set.
  void describe(DeviceGroup& group) const;
  /// Turns a described group into one whose calls return at once: by launching them, kernels are loaded, and get the
  /// local memory that they need. A device may have to become idle for that, which it does not while ranks that share
  /// it wait for each other.
  void retire(DeviceGroup& group) const;
  /// Throws Error that names the call and the rank waited for, when a wait was given up. Never blocks.
  void check(std::string_view backend, int rank) const;
  /// Makes all waits end, from any thread.
  void abort() noexcept;

 private:
  struct Host {
    WaitReport report;
    std::uint32_t abort = 0;
  };
  struct FreeOnDevice {
    void operator()(std::uint32_t* words) const noexcept;
  };
  std::unique_ptr<std::uint32_t, FreeOnDevice> counters_;
  Host* host_ = nullptr;
};

}  // namespace specstep::comm
