// How large a rank's inboxes are, and where in one allocation each part lies.
#pragma once

#include <cstddef>

#include "comm/protocol/memory.h"

namespace specstep::comm::protocol {

/// The parts of an Inbox that a protocol uses; flags and counters are always there.
struct Regions {
  bool packs = false;
  bool partials = false;
  bool results = false;
  bool lines = false;
  bool input = false;  // a copy of the input, for peers to read
  bool reduced = false;
  int crossings = 0;  // islands; 0: none
  bool hops = false;
  bool board = false;
  bool cells = false;
  bool parts = false;        // and gathered sums
  std::size_t exchange = 0;  // bytes through which the other collectives are read
};

/// Offsets in bytes, each a multiple of 256. Regions that are not used have none, and take nothing.
struct Room {
  std::size_t packs = 0, partials = 0, results = 0, lines = 0, input = 0, reduced = 0, exchange = 0;
  std::size_t crossings = 0, hops = 0, board = 0, shown = 0, cells = 0, parts = 0, gathered = 0;
  std::size_t flags = 0;     // [2 sets][block][peer] words
  std::size_t counters = 0;  // epoch, abort; and in a line of its own, entered
  std::size_t probe = 0;     // a word for each rank: whether memory is what it seems
  std::size_t bytes = 0;
};

/// Equal on all ranks for equal arguments.
Room room_of(const Regions& regions, const Capacity& capacity);

}  // namespace specstep::comm::protocol
