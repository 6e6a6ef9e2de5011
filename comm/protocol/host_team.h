// Ranks as threads that run the device protocols on host memory.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "comm/protocol/host_memory.h"
#include "model/base/error.h"

namespace specstep::comm::protocol {

/// A call did not end within its time limit: a rank is missing, late or dead. The text names the rank, the call and
/// what was waited for.
class CallAborted : public Error {
 public:
  using Error::Error;
};

struct TeamOptions {
  Capacity capacity;
  std::uint32_t first_epoch = 0;  // of the call before the first one
  std::chrono::milliseconds time_limit{10'000};
  std::vector<std::vector<int>> islands{};  // see island_plan_of; empty: one of all ranks
};

/// Name of a protocol: "push_sentinel", ...
std::string_view name_of(Protocol protocol);

/// The shared memory of `capacity.ranks` ranks. Each rank's calls come from one thread at a time, in the same order on
/// all ranks with equal site, packs and blocks; different ranks run at once.
class HostTeam {
 public:
  explicit HostTeam(const TeamOptions& options);

  /// What a rank gives to the sum: `packs` of the next call, written by the caller between its calls.
  std::vector<Pack>& input(int rank) { return ranks_[static_cast<std::size_t>(rank)]->input(); }

  /// What every rank passes alike.
  struct CallShape {
    Protocol protocol{};
    std::int32_t site = 0;
    std::uint32_t packs = 1;   // 1 to capacity.packs
    std::uint32_t blocks = 1;  // of the grid: 1 to capacity.blocks
  };
  /// Runs one rank's part, its blocks one after the other. Sums in fp32 in the order of the protocol, rounded to bf16,
  /// equal bits on all ranks. Throws CallAborted, and std::logic_error for a shape outside the capacity.
  void allreduce(int rank, const CallShape& shape, Pack* out);
  /// One block of the grid, for callers that run blocks at once. All of them must end before the rank's next call.
  void run_block(int rank, const CallShape& shape, std::uint32_t block, Pack* out);

  /// After a failure, once all ranks have left their calls: who is to blame. A rank that waited is not; the search goes
  /// from one to the rank it waited for. Empty when nothing failed.
  std::string diagnosis() const;
  /// Makes the team usable again after a failure. No call may be running.
  void reset();

 private:
  TeamOptions options_;
  std::vector<std::unique_ptr<HostRank>> ranks_;
  HostMemory::Control control_;
};

}  // namespace specstep::comm::protocol
