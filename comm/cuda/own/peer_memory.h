// Memory of each rank that all ranks of a group reach: threads by plain pointers, processes through CUDA IPC or shared
// host memory.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/bootstrap.h"

namespace specstep::comm {

/// Where a rank's part lies: on its device, or in host memory that devices map.
enum class Place { device, host };

class PeerMemory {
 public:
  /// Every rank calls it with equal bytes, its device current. The memory is zeros. Throws Unsupported with the reason,
  /// alike on all ranks, where a rank cannot reach another's memory.
  PeerMemory(Bootstrap& group, std::size_t bytes, Place place);
  /// Waits for the others first, so that nobody frees what another still uses; not once the group has failed.
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  std::byte* own() const { return of_[static_cast<std::size_t>(group_.rank())]; }
  /// Part of a rank as this one's device reaches it.
  std::byte* of(int rank) const { return of_[static_cast<std::size_t>(rank)]; }
  std::size_t bytes() const { return bytes_; }

 private:
  class Part;  // owns or maps one rank's memory
  Bootstrap& group_;
  std::size_t bytes_;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::byte*> of_;
};

/// Ranks of the group whose device is that of this rank, itself included. Every rank calls it.
int ranks_on_my_device(Bootstrap& group);
/// Whether any ranks of the group share a device: the same on all. Every rank calls it.
bool any_device_is_shared(Bootstrap& group);

}  // namespace specstep::comm
