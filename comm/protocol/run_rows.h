// All protocols with rows by name.
#pragma once

#include "comm/protocol/rows_island.h"

namespace specstep::comm::protocol {

/// Over whom a row is shared out, so that each sums a part of it.
enum class Shares : std::uint8_t { none, ranks, island };

constexpr Shares shares_of(Protocol protocol) {
  if (protocol == Protocol::push_islands) return Shares::island;
  const bool two = protocol == Protocol::pull_two_stage || protocol == Protocol::push_two_stage;
  return two ? Shares::ranks : Shares::none;
}

/// Whether a thread works on one place of every shard of a row, instead of on packs as they come: where barriers of
/// blocks say that data is there, a block may read only what the same block has put down.
constexpr bool by_places(Protocol protocol) { return protocol == Protocol::pull_two_stage; }

/// Packs that an epilogue may be given to keep, by a thread of one row.
constexpr int kept_packs(Protocol protocol, int most_ranks) { return by_places(protocol) ? most_ranks : 1; }

/// One lane of a call. The call's packs are those of all rows; where rows are shared out, room is needed for rows.count
/// shards of a row's packs. `ok` false: the rank has failed before, and only the epilogue's meetings take place. False
/// when a wait was given up.
template <Protocol P, class Memory, class Epilogue>
constexpr bool run_rows(Memory& m, const Call& call, const Rows& rows, const RowLane& at, Epilogue& epilogue, bool ok) {
  if constexpr (P == Protocol::push_sentinel) return rows_push_sentinel(m, call, rows, at, epilogue, ok);
  if constexpr (P == Protocol::push_ll) return rows_push_ll(m, call, rows, at, epilogue, ok);
  if constexpr (P == Protocol::pull_one_stage) return rows_pull_one_stage(m, call, rows, at, epilogue, ok);
  if constexpr (P == Protocol::pull_two_stage) return rows_pull_two_stage(m, call, rows, at, epilogue, ok);
  if constexpr (P == Protocol::push_two_stage) return rows_push_two_stage(m, call, rows, at, epilogue, ok);
  if constexpr (P == Protocol::push_islands) return rows_push_islands(m, call, rows, at, epilogue, ok);
}

}  // namespace specstep::comm::protocol
