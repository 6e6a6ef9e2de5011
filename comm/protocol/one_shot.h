// One-shot allreduces: each rank gets every input and sums them itself, in the order of the ranks.
#pragma once

#include "comm/protocol/memory.h"

namespace specstep::comm::protocol {

/// Pushes each pack to all ranks; the data is its own flag. A slot is emptied as soon as it is read, which is before
/// the next-but-one call can write it. One's own data takes the same way, so that all ranks sum the same bits.
template <class Memory>
constexpr bool push_sentinel(Memory& m, const Call& call, const Lane& lane) {
  const auto at = [&](int source, std::uint32_t i) {
    return slot(half_of(lane.epoch), call.ranks, source, m.capacity().packs, i) * words_per_pack;
  };
  for (std::uint32_t i = lane.first; i < call.packs; i += lane.step) {
    const Pack wire = to_wire(m.read(call.in + i));
    for (int k = 0; k < call.ranks; ++k)
      m.store_pack(m.peer((call.rank + k) % call.ranks).packs + at(call.rank, i), wire);
  }
  for (std::uint32_t i = lane.first; i < call.packs; i += lane.step) {
    Sum sum;
    for (int source = 0; source < call.ranks; ++source) {
      auto* mine = m.own().packs + at(source, i);
      Pack got;
      const auto ready = [&] {
        got = m.load_pack(mine);
        return arrived(got);
      };
      if (!wait_for(m, {source, Stage::data, i}, ready)) return false;
      m.store_pack(mine, Pack{});
      sum.add(got);
    }
    m.write(call.out + i, sum.rounded());
  }
  return true;
}

/// Pushes pairs of {4 bytes of data, epoch}; a pair is valid when it carries the epoch of the call. Nothing is emptied.
/// A slot that no call has touched for exactly 2^32 - 1 calls would look valid; no inbox lives that long unused.
template <class Memory>
constexpr bool push_ll(Memory& m, const Call& call, const Lane& lane) {
  const auto at = [&](int source, std::uint32_t i) {
    return slot(half_of(lane.epoch), call.ranks, source, m.capacity().packs, i) * words_per_pack;
  };
  const std::uint64_t flag = static_cast<std::uint64_t>(lane.epoch) << 32;
  for (std::uint32_t i = lane.first; i < call.packs; i += lane.step) {
    const Pack pack = m.read(call.in + i);
    for (int k = 0; k < call.ranks; ++k) {
      auto* line = m.peer((call.rank + k) % call.ranks).lines + at(call.rank, i);
      for (int w = 0; w < words_per_pack; ++w) m.store_pair(line + w, flag | pack.word[w]);
    }
  }
  for (std::uint32_t i = lane.first; i < call.packs; i += lane.step) {
    Sum sum;
    for (int source = 0; source < call.ranks; ++source) {
      const auto* line = m.own().lines + at(source, i);
      Pack got;
      const auto ready = [&] {
        for (int w = 0; w < words_per_pack; ++w) {
          const std::uint64_t pair = m.load_pair(line + w);
          if ((pair >> 32) != lane.epoch) return false;
          got.word[w] = static_cast<std::uint32_t>(pair);
        }
        return true;
      };
      if (!wait_for(m, {source, Stage::data, i}, ready)) return false;
      sum.add(got);
    }
    m.write(call.out + i, sum.rounded());
  }
  return true;
}

/// Reads all inputs between two barriers: the first says that inputs are ready, the second that they may change again.
template <class Memory>
constexpr bool pull_one_stage(Memory& m, const Call& call, const Lane& lane) {
  if (!barrier(m, call, lane, 0, Stage::start)) return false;
  for (std::uint32_t i = lane.first; i < call.packs; i += lane.step) {
    Sum sum;
    for (int source = 0; source < call.ranks; ++source) sum.add(m.read(m.peer(source).input + i));
    m.write(call.out + i, sum.rounded());
  }
  return barrier(m, call, lane, 1, Stage::end);
}

}  // namespace specstep::comm::protocol
