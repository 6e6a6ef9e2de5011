// What a kernel of our own knows of its group. Plain data, passed to kernels by value.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "comm/protocol/memory.h"
#include "model/base/dtype.h"

namespace specstep::comm {

inline constexpr int most_own_ranks = 8;

/// What a lane was waiting for when it gave up. Lies in host memory that the device writes.
struct WaitReport {
  std::uint32_t valid = 0;  // written last
  std::int32_t site = 0;
  std::uint32_t epoch = 0;
  protocol::Awaited what;
};

/// The inboxes of all ranks as this one reaches them, and its own way out of waits. Epoch and counter are those of this
/// rank's own inbox only.
struct DeviceGroup {
  protocol::Inbox<std::uint32_t, std::uint64_t> inbox[most_own_ranks];
  std::byte* exchange[most_own_ranks] = {};  // see Regions::exchange
  std::size_t exchange_bytes = 0;
  protocol::Capacity capacity;
  protocol::IslandPlan islands;  // island
  int rank = 0;
  std::uint32_t* abort = nullptr;             // beside the epoch: set by the first lane that gives up
  const std::uint32_t* host_abort = nullptr;  // set by the host
  WaitReport* report = nullptr;
  std::uint64_t limit_ns = 0;  // of one wait
};

struct Grid {
  unsigned blocks = 1;
  unsigned threads = 32;
};

/// One allreduce as a kernel gets it.
struct OwnCall {
  const void* in = nullptr;
  void* out = nullptr;      // may be `in`
  std::uint32_t bytes = 0;  // at least 1, at most the capacity
  DType dtype = DType::bf16;
  std::int32_t site = 0;
};

}  // namespace specstep::comm
