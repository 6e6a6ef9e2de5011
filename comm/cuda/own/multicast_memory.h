// Memory of one size on several devices behind an NVLink switch, and an address that stands for all of it at once.
#pragma once

#include <cstddef>
#include <memory>

#include "comm/bootstrap.h"

namespace specstep::comm {

/// Why the current device cannot take part, or nothing: it has no multicast.
std::string multicast_refusal();

class MulticastMemory {
 public:
  /// Every rank calls it, each with a device of its own current. The memory is zeros. Throws Unsupported, alike on all
  /// ranks, where a rank cannot take part; ranks are threads of one process.
  MulticastMemory(Bootstrap& group, std::size_t bytes);
  /// Waits for the others first.
  ~MulticastMemory();
  MulticastMemory(const MulticastMemory&) = delete;
  MulticastMemory& operator=(const MulticastMemory&) = delete;

  std::byte* own() const;
  /// Loads that reduce read from all ranks, stores go to all.
  std::byte* all() const;
  std::size_t bytes() const;

 private:
  struct Parts;
  Bootstrap& group_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace specstep::comm
