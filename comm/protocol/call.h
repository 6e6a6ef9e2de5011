// What one allreduce call is, and how its ranks agree on when it is.
#pragma once

#include <cstdint>

#include "comm/protocol/pack.h"

namespace specstep::comm::protocol {

/// push: ranks write into each other's inboxes. pull: ranks read each other's inputs between barriers. The others: see
/// island.h, ring.h, boards.h, quantised.h and copied.h.
enum class Protocol {
  push_sentinel,
  push_ll,
  pull_one_stage,
  pull_two_stage,
  push_two_stage,
  push_islands,
  ring_ll,
  boards,
  quantised_two_stage,
  copied_two_stage
};

/// One rank's part of a call. All ranks pass equal site, ranks and packs. `in` and `out` are one array or do not
/// overlap.
struct Call {
  std::int32_t site = 0;  // which allreduce of the model this is, for messages
  int rank = 0;
  int ranks = 1;
  std::uint32_t packs = 1;  // at least 1: an empty call would let a rank run ahead of the others
  const Pack* in = nullptr;
  Pack* out = nullptr;
};

/// The rank that comes k places after this one, 0 <= k < ranks. Peers in this order keep ranks from all addressing one.
constexpr int later(const Call& call, int k) {
  const int rank = call.rank + k;
  return rank >= call.ranks ? rank - call.ranks : rank;
}

/// The packs that one thread of a grid works on: first, first + step, ... The same thread of every rank works on the
/// same packs, so that a flag which covers a thread's writes covers what its peers read.
struct Lane {
  std::uint32_t first = 0;
  std::uint32_t step = 1;
  std::uint32_t block = 0;  // of the grid; barriers have a flag for each
  std::uint32_t epoch = 0;
};

/// What a lane can be waiting for.
enum class Stage : std::uint8_t { data, start, end, middle, partial, result, crossing, hop };

/// A wait: for which rank, for what, and for which pack (stages of data) or block (barriers).
struct Awaited {
  int rank = 0;
  Stage stage{};
  std::uint32_t index = 0;
};

/// Epochs count calls modulo 2^32. 0 is never used: it is what flags hold before the first call. Skipping to 2 keeps
/// even and odd in turn, on which the choice of the inbox half rests.
constexpr std::uint32_t next_epoch(std::uint32_t epoch) {
  const std::uint32_t next = epoch + 1;
  return next == 0 ? 2 : next;
}

/// Whether a flag that only grows has reached an epoch. Signed difference, so that the wrap at 2^32 does no harm; a
/// flag must not lag by 2^31 calls.
constexpr bool reached(std::uint32_t flag, std::uint32_t epoch) { return static_cast<std::int32_t>(flag - epoch) >= 0; }

/// Which of the two halves of an inbox a call uses. Two are enough: to be two calls ahead a rank would need data of the
/// slow rank's next call.
constexpr std::uint32_t half_of(std::uint32_t epoch) { return epoch & 1U; }

/// Packs of one shard when a message is shared out over the ranks; the last shards may be short or empty.
constexpr std::uint32_t shard_packs(std::uint32_t packs, int ranks) {
  return (packs + static_cast<std::uint32_t>(ranks) - 1) / static_cast<std::uint32_t>(ranks);
}
struct Shard {
  std::uint32_t begin = 0;
  std::uint32_t count = 0;
};
constexpr Shard shard_of(std::uint32_t packs, int ranks, int owner) {
  const std::uint32_t each = shard_packs(packs, ranks);
  const std::uint32_t begin = each * static_cast<std::uint32_t>(owner);
  if (begin >= packs) return {packs, 0};
  return {begin, packs - begin < each ? packs - begin : each};
}

}  // namespace specstep::comm::protocol
