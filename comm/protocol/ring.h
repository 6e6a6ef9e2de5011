// A ring in the order of the ranks: sums of shards go round once and grow, then results go round once.
//
// The sum of a shard begins with the rank after its owner and takes in one rank after the other, in fp32; the owner
// adds its own part last and rounds, once. So the order of a sum depends on the shard; results are passed on as they
// are and all ranks end with equal bits. Pairs of {4 bytes of data, epoch}; nothing is emptied. Each pack goes on as
// soon as it has come, so that all links work at once on a message of several packs.
//
// Two halves are enough: every pack's sum passes through every rank, so whoever ends a call knows that all ranks have
// come to it and have read what they were sent in the one before.
#pragma once

#include "comm/protocol/memory.h"
#include "comm/protocol/wide.h"

namespace specstep::comm::protocol {

inline constexpr int lines_of_hop = most_wide_packs + 1;  // a sum on its way, and a result

namespace detail {

/// One lane of a call.
template <class Memory>
struct RingLane {
  using Sum = typename Memory::Sum;

  constexpr RingLane(Memory& memory, const Call& c, const Lane& l)
      : m(memory),
        call(c),
        lane(l),
        last(c.ranks - 1),
        right(later(c, c.ranks > 1 ? 1 : 0)),
        left(later(c, c.ranks - 1)),
        stride(shard_packs(memory.capacity().packs, c.ranks)) {}

  /// This rank's part in the sum of the shard that comes by at a step: the first of it at step 0, the end at the last,
  /// where the shard is its own.
  constexpr bool grow(int step) {
    const Shard shard = shard_of(call.packs, call.ranks, later(call, last - step));
    for (std::uint32_t j = lane.first; j < shard.count; j += lane.step) {
      Sum sum;
      if (step > 0 && !add_hop(step - 1, j, shard.begin + j, sum)) return false;
      sum.add(m.take(call, shard.begin + j));
      if (step < last) {
        for (int w = 0; w < wide_packs<Sum>; ++w)
          m.store_line(m.peer(right).hops + line(step, j, w), wide_pack(sum, w), lane.epoch);
        continue;
      }
      const Pack result = sum.rounded();
      if (last > 0) m.store_line(m.peer(right).hops + line(0, j, most_wide_packs), result, lane.epoch);
      m.put(call, shard.begin + j, result);
    }
    return true;
  }

  /// Takes the results that come by at a step, and passes them on to all but their owner.
  constexpr bool pass_on(int step) {
    const Shard shard = shard_of(call.packs, call.ranks, later(call, last - step));
    for (std::uint32_t j = lane.first; j < shard.count; j += lane.step) {
      Pack result;
      const auto* from = m.own().hops + line(step, j, most_wide_packs);
      const auto ready = [&] { return m.load_line(from, lane.epoch, result); };
      if (!wait_for(m, {left, Stage::result, shard.begin + j}, ready)) return false;
      if (step + 1 < last) m.store_line(m.peer(right).hops + line(step + 1, j, most_wide_packs), result, lane.epoch);
      m.put(call, shard.begin + j, result);
    }
    return true;
  }

  constexpr std::size_t line(int step, std::uint32_t j, int part) const {
    return (slot(half_of(lane.epoch), last, step, stride, j) * lines_of_hop + static_cast<std::size_t>(part)) *
           words_per_pack;
  }
  constexpr bool add_hop(int step, std::uint32_t j, std::uint32_t pack, Sum& sum) {
    Pack got[std::size_t{wide_packs<Sum>}];
    const auto ready = [&] {
      bool all = true;
      for (int w = 0; w < wide_packs<Sum>; ++w)
        all = m.load_line(m.own().hops + line(step, j, w), lane.epoch, got[w]) && all;
      return all;
    };
    if (!wait_for(m, {left, Stage::hop, pack}, ready)) return false;
    for (int w = 0; w < wide_packs<Sum>; ++w) add_wide(sum, w, got[w]);
    return true;
  }

  Memory& m;
  const Call& call;
  const Lane& lane;
  int last, right, left;
  std::uint32_t stride;
};

}  // namespace detail

/// `in` and `out` may be one: a lane has the same places in every shard.
template <class Memory>
constexpr bool ring_ll(Memory& m, const Call& call, const Lane& lane) {
  detail::RingLane<Memory> work(m, call, lane);
  bool came = work.grow(0);  // waits for nobody
  m.settled(lane);
  for (int step = 1; came && step < call.ranks; ++step) came = work.grow(step);
  for (int step = 0; came && step < call.ranks - 1; ++step) came = work.pass_on(step);
  return came;
}

}  // namespace specstep::comm::protocol
