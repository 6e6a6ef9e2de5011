// What a protocol asks of memory. A policy gives the operations: host_memory.h for threads; on a device, loads and
// stores of system scope.
//
//   Word, Pair              a 32-bit word, and 8 bytes that are written and read whole
//   Sum                     fp32 sums of the values of packs, added in the order of the calls and rounded once; never
//   -0 most_ranks              at least call.ranks; loops over ranks end there, so that a compiler can unroll them
//   own(), peer(rank)       Inbox<Word, Pair>& of this rank and of the others
//   capacity()              Capacity, equal on all ranks
//   load(w), store(w, v)    one word; what a rank stored before is visible to whoever sees v
//   add(w, v)               atomic, returns the value before
//   load_pack, store_pack   four words, not whole: any of them may be seen first
//   read(p), write(p, v)    a pack of memory that peers read or wrote, ordered by flags
//   store_line(l, pack, e)  a pack as four pairs {word, epoch}
//   load_line(l, e, pack)   whether all four pairs carry the epoch; then `pack` is what they hold
//   store_halves(a, b, pack, e), load_halves(a, b, e, pack): the same with two pairs at `a` and two at `b`
//   take(call, i)           pack i of the call's input; what is missing of the last one is zeros
//   put(call, i, pack)      pack i of the call's output
//   expose(call, i)         puts pack i of the input where peers read it: in own().input; nothing where it lies there
//   settled(lane)           the lane has read the epoch; its grid may move it on
//   islands()               const IslandPlan&, equal on all ranks
//   lanes_of_group          lanes that follow each other and hold a group of values together (see quantised.h)
//   greatest(v)             the largest that any lane of the group passes; group_agrees(ok): whether all pass true
//   for_peers(n, f)         f(peer) for each of n ranks, shared out over the threads of a block
//   all_agree(ok)           waits for the threads of a block; false when any of them passes false
//   pause(), give_up(what)  between looks; give_up is asked every `spins_between_checks` looks, and writes the record
#pragma once

#include <cstddef>
#include <cstdint>

#include "comm/protocol/call.h"
#include "comm/protocol/islands.h"

namespace specstep::comm::protocol {

/// Sizes of the inboxes.
struct Capacity {
  int ranks = 1;
  std::uint32_t packs = 1;   // largest call
  std::uint32_t blocks = 1;  // largest grid
};

/// What one rank owns and its peers reach. Data that is its own flag and flags never share a region.
template <class Word, class Pair>
struct Inbox {
  Word* packs = nullptr;     // [2 halves][source][pack] of four words: one-shot push
  Word* partials = nullptr;  // [2 halves][source][pack of a shard]: two-stage push, first stage
  Word* results = nullptr;   // [2 halves][owner][pack of a shard]: two-stage push, second stage
  Pair* lines = nullptr;     // [2 halves][source][pack] of four pairs {data, epoch}: one-shot push with flags
  Word* flags = nullptr;     // [2 sets][block][peer]
  Word* epoch = nullptr;     // of the last call
  Word* entered = nullptr;   // blocks of the current call that have read the epoch
  const Pack* input = nullptr;
  Pack* reduced = nullptr;    // [pack of a shard]: two-stage pull, and copies
  Word* crossings = nullptr;  // [2 halves][island][pack of an island's shard][2 packs of fp32]: islands
  Pair* hops = nullptr;       // [2 halves][step][pack of a shard][3 packs of pairs]: ring
  Pair* board = nullptr;      // [2 halves][pack] of four pairs: what this rank shows to all, in short messages
  Pack* shown = nullptr;      // [2 halves][pack]: in long ones
  Word* cells = nullptr;      // [2 stages][2 halves][source][group of a shard][17 packs]: quantised
  Pack* parts = nullptr;      // [source][pack of a shard]: copies
  Pack* gathered = nullptr;   // [pack]: copies of all sums
};

constexpr std::size_t slot(std::uint32_t half, int ranks, int source, std::uint32_t stride, std::uint32_t index) {
  return (static_cast<std::size_t>(half) * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(source)) *
             stride +
         index;
}

/// Looks until `ready()`, which may change `what` as it goes. False when the policy gives up; the lane must then leave
/// its kernel.
template <class Memory, class Ready>
constexpr bool wait_for(Memory& m, const Awaited& what, Ready ready) {
  for (std::uint32_t spin = 1; !ready(); ++spin) {
    m.pause();
    if (spin % Memory::spins_between_checks == 0 && m.give_up(what)) return false;
  }
  return true;
}

/// The epoch of this call, the same for every block of its grid whatever the grid was before: the last block to read it
/// moves it on. One thread of a block calls this.
template <class Memory>
constexpr std::uint32_t enter_call(Memory& m, std::uint32_t blocks) {
  const std::uint32_t epoch = next_epoch(m.load(m.own().epoch));
  if (m.add(m.own().entered, 1) + 1 == blocks) {
    m.store(m.own().entered, 0);
    m.store(m.own().epoch, epoch);
  }
  return epoch;
}

/// Waits until packs have arrived from each source below most_ranks for which `awaited(source)` holds, one slot for
/// each: all are looked at in every look, so that their latencies overlap. A slot is emptied as soon as all are there.
/// The other places of `got` are left alone. `rank_of(source)` is for messages.
template <class Memory, class Awaits, class RankOf, class Slots>
constexpr bool take_those(Memory& m, Awaits awaited, RankOf rank_of, Awaited what, Slots slot_of,
                          Pack (&got)[Memory::most_ranks]) {
  const auto ready = [&] {
    bool all = true;
    for (int source = 0; source < Memory::most_ranks; ++source)
      if (awaited(source)) got[source] = m.load_pack(slot_of(source));
    for (int source = Memory::most_ranks - 1; source >= 0; --source)
      if (awaited(source) && !arrived(got[source])) {
        what.rank = rank_of(source);
        all = false;
      }
    return all;
  };
  if (!wait_for(m, what, ready)) return false;
  for (int source = 0; source < Memory::most_ranks; ++source)
    if (awaited(source)) m.store_pack(slot_of(source), Pack{});
  return true;
}

/// Of all ranks but this one.
template <class Memory, class Slots>
constexpr bool take_arrivals(Memory& m, const Call& call, Awaited what, Slots slot_of,
                             Pack (&got)[Memory::most_ranks]) {
  return take_those(
      m, [&](int source) { return source < call.ranks && source != call.rank; }, [](int source) { return source; },
      what, slot_of, got);
}

/// The same of lines, which carry the epoch and are not emptied.
template <class Memory, class Lines>
constexpr bool take_lines(Memory& m, const Call& call, Awaited what, std::uint32_t epoch, Lines line_of,
                          Pack (&got)[Memory::most_ranks]) {
  return wait_for(m, what, [&] {
    bool all = true;
    for (int source = Memory::most_ranks - 1; source >= 0; --source)
      if (source < call.ranks && source != call.rank && !m.load_line(line_of(source), epoch, got[source])) {
        what.rank = source;
        all = false;
      }
    return all;
  });
}

/// The sum of a pack of every rank, in rank order; this rank's is `own`.
template <class Memory>
constexpr Pack sum_of(const Call& call, const Pack (&got)[Memory::most_ranks], const Pack& own) {
  typename Memory::Sum sum;
  for (int source = 0; source < Memory::most_ranks; ++source) {
    Pack one = got[source];  // a copy: what an address is taken of would not stay in registers
    if (source == call.rank) one = own;
    if (source < call.ranks) sum.add(one);
  }
  return sum.rounded();
}

namespace detail {
template <class Memory>
constexpr std::size_t flag_of(Memory& m, const Call& call, const Lane& lane, std::uint32_t set, int writer) {
  return slot(set, static_cast<int>(m.capacity().blocks), static_cast<int>(lane.block),
              static_cast<std::uint32_t>(call.ranks), static_cast<std::uint32_t>(writer));
}
}  // namespace detail

/// Tells every peer that this block has come. False when a thread of it had failed.
template <class Memory>
constexpr bool tell_peers(Memory& m, const Call& call, const Lane& lane, std::uint32_t set) {
  if (!m.all_agree(true)) return false;
  m.for_peers(call.ranks, [&](int peer) {
    m.store(m.peer(peer).flags + detail::flag_of(m, call, lane, set, call.rank), lane.epoch);
  });
  return true;
}

/// Waits until this block of every peer has come.
template <class Memory>
constexpr bool hear_peers(Memory& m, const Call& call, const Lane& lane, std::uint32_t set, Stage stage) {
  bool came = true;
  m.for_peers(call.ranks, [&](int peer) {
    const auto* mine = m.own().flags + detail::flag_of(m, call, lane, set, peer);
    came = came && wait_for(m, {peer, stage, lane.block}, [&] { return reached(m.load(mine), lane.epoch); });
  });
  return m.all_agree(came);
}

/// Both. Two sets of flags alternate within a call: with one, a fast rank could overwrite what a slow one has not yet
/// seen.
template <class Memory>
constexpr bool barrier(Memory& m, const Call& call, const Lane& lane, std::uint32_t set, Stage stage) {
  return tell_peers(m, call, lane, set) && hear_peers(m, call, lane, set, stage);
}

}  // namespace specstep::comm::protocol
