// All protocols by name.
#pragma once

#include "comm/protocol/boards.h"
#include "comm/protocol/copied.h"
#include "comm/protocol/island.h"
#include "comm/protocol/quantised.h"
#include "comm/protocol/ring.h"
#include "comm/protocol/two_stage.h"

namespace specstep::comm::protocol {

/// One lane of a call. False when a wait was given up.
template <Protocol P, class Memory>
constexpr bool run_lane(Memory& m, const Call& call, const Lane& lane) {
  if constexpr (P == Protocol::push_sentinel) return push_sentinel(m, call, lane);
  if constexpr (P == Protocol::push_ll) return push_ll(m, call, lane);
  if constexpr (P == Protocol::pull_one_stage) return pull_one_stage(m, call, lane);
  if constexpr (P == Protocol::pull_two_stage) return pull_two_stage(m, call, lane);
  if constexpr (P == Protocol::push_two_stage) return push_two_stage(m, call, lane);
  if constexpr (P == Protocol::push_islands) return push_islands(m, call, lane);
  if constexpr (P == Protocol::ring_ll) return ring_ll(m, call, lane);
  if constexpr (P == Protocol::boards) return boards(m, call, lane);
  if constexpr (P == Protocol::quantised_two_stage) return quantised_two_stage(m, call, lane);
  if constexpr (P == Protocol::copied_two_stage) return copied_two_stage(m, call, lane);
}

}  // namespace specstep::comm::protocol
