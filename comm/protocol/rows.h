// Allreduces of rows that go on with each row as soon as it is summed: the protocols of one_shot.h and two_stage.h, in
// which blocks share rows instead of packs. Slots, flags and epochs are those of the protocols without rows, so calls
// of both kinds may follow each other.
//
// A row's sums go to an epilogue. A thread has the same packs of a row in all stages:
//   expect(k, row, p)          pack p, the k-th that the thread may keep, will be summed; what it meets can be loaded
//   add(k, keep, row, p, sum)  the rounded sum of a pack. keep: it is the k-th that the thread may hold in registers
//   finish(row, visit)         all packs were added; visit(f) calls f(k, keep, p) again for each of this thread. Every
//                              thread of the row's blocks comes here, also one without packs or after a failed wait.
#pragma once

#include <utility>

#include "comm/protocol/two_stage.h"

namespace specstep::comm::protocol {

struct Rows {
  std::uint32_t count = 1;
  std::uint32_t packs = 1;  // of one row
};

/// The rows and, within each, the packs (two stages by reads: the places in every shard) that one thread works on. The
/// same on every rank. `lane` counts within a row; its block is that of the grid.
struct RowLane {
  Lane lane;
  std::uint32_t first_row = 0;
  std::uint32_t row_step = 1;
};

namespace detail {

/// f(0), f(1), ... f(most - 1) one behind the other, so that what they index can lie in registers.
template <int most, class F>
constexpr void unrolled(F f) {
  [&]<int... k>(std::integer_sequence<int, k...>) { (f(k), ...); }
  (std::make_integer_sequence<int, most>());
}

template <class F>
constexpr void each_row(const Rows& rows, const RowLane& at, F f) {
  for (std::uint32_t row = at.first_row; row < rows.count; row += at.row_step) f(row);
}

/// send(i) for all packs, then sum(i, pack) for each, which says whether it could.
template <class Memory, class Epilogue, class Send, class Sum>
constexpr bool rows_one_shot(Memory& m, const Rows& rows, const RowLane& at, Epilogue& epilogue, bool ok, Send send,
                             Sum sum) {
  const Lane& lane = at.lane;
  if (ok)
    each_row(rows, at, [&](std::uint32_t row) {
      for (std::uint32_t p = lane.first; p < rows.packs; p += lane.step) send(row * rows.packs + p);
    });
  m.settled(lane);
  each_row(rows, at, [&](std::uint32_t row) {
    if (lane.first < rows.packs) epilogue.expect(0, row, lane.first);
    for (std::uint32_t p = lane.first; p < rows.packs; p += lane.step) {
      Pack total;
      ok = ok && sum(row * rows.packs + p, total);
      if (ok) epilogue.add(0, p == lane.first, row, p, total);
    }
    epilogue.finish(row, [&](auto visit) {
      for (std::uint32_t p = lane.first; p < rows.packs; p += lane.step) visit(0, p == lane.first, p);
    });
  });
  return ok;
}

}  // namespace detail

template <class Memory, class Epilogue>
constexpr bool rows_push_sentinel(Memory& m, const Call& call, const Rows& rows, const RowLane& at, Epilogue& epilogue,
                                  bool ok) {
  const auto place = [&](int source, std::uint32_t i) {
    return slot(half_of(at.lane.epoch), call.ranks, source, m.capacity().packs, i) * words_per_pack;
  };
  const auto send = [&](std::uint32_t i) {
    const Pack wire = to_wire(m.take(call, i), Memory::Sum::negative_zeros);
    for (int k = 1; k < Memory::most_ranks; ++k)
      if (k < call.ranks) m.store_pack(m.peer(later(call, k)).packs + place(call.rank, i), wire);
  };
  const auto sum = [&](std::uint32_t i, Pack& total) {
    Pack got[Memory::most_ranks];
    const Pack own = to_wire(m.take(call, i), Memory::Sum::negative_zeros);
    const auto from = [&](int source) { return m.own().packs + place(source, i); };
    if (!take_arrivals(m, call, {0, Stage::data, i}, from, got)) return false;
    total = sum_of<Memory>(call, got, own);
    return true;
  };
  return detail::rows_one_shot(m, rows, at, epilogue, ok, send, sum);
}

template <class Memory, class Epilogue>
constexpr bool rows_push_ll(Memory& m, const Call& call, const Rows& rows, const RowLane& at, Epilogue& epilogue,
                            bool ok) {
  const auto place = [&](int source, std::uint32_t i) {
    return slot(half_of(at.lane.epoch), call.ranks, source, m.capacity().packs, i) * words_per_pack;
  };
  const auto send = [&](std::uint32_t i) {
    const Pack pack = m.take(call, i);
    for (int k = 1; k < Memory::most_ranks; ++k)
      if (k < call.ranks) m.store_line(m.peer(later(call, k)).lines + place(call.rank, i), pack, at.lane.epoch);
  };
  const auto sum = [&](std::uint32_t i, Pack& total) {
    Pack got[Memory::most_ranks];
    const Pack own = m.take(call, i);
    const auto from = [&](int source) { return m.own().lines + place(source, i); };
    if (!take_lines(m, call, {0, Stage::data, i}, at.lane.epoch, from, got)) return false;
    total = sum_of<Memory>(call, got, own);
    return true;
  };
  return detail::rows_one_shot(m, rows, at, epilogue, ok, send, sum);
}

/// The end flag is told once all inputs are read, and waited for behind the epilogue: its way is hidden by the norm.
template <class Memory, class Epilogue>
constexpr bool rows_pull_one_stage(Memory& m, const Call& call, const Rows& rows, const RowLane& at, Epilogue& epilogue,
                                   bool ok) {
  const Lane& lane = at.lane;
  m.settled(lane);
  detail::each_row(rows, at, [&](std::uint32_t row) {
    for (std::uint32_t p = lane.first; p < rows.packs; p += lane.step) m.expose(call, row * rows.packs + p);
  });
  ok = m.all_agree(ok) && barrier(m, call, lane, 0, Stage::start);
  bool told = false;
  detail::each_row(rows, at, [&](std::uint32_t row) {
    if (lane.first < rows.packs) epilogue.expect(0, row, lane.first);
    for (std::uint32_t p = lane.first; ok && p < rows.packs; p += lane.step) {
      const std::uint32_t i = row * rows.packs + p;
      const Pack total = rotated_sum(m, call, [&](int source) { return m.peer(source).input + i; });
      epilogue.add(0, p == lane.first, row, p, total);
    }
    if (ok && row + at.row_step >= rows.count) {
      tell_peers(m, call, lane, 1);
      told = true;
    }
    epilogue.finish(row, [&](auto visit) {
      for (std::uint32_t p = lane.first; p < rows.packs; p += lane.step) visit(0, p == lane.first, p);
    });
  });
  if (ok && !told) tell_peers(m, call, lane, 1);
  return ok && hear_peers(m, call, lane, 1, Stage::end);
}

namespace detail {

/// Each row is shared out over the ranks by itself, so that what a thread gathers is all of one row. j counts the
/// places of every shard of a row, `place` those of all rows.
struct RowShards {
  const Rows& rows;
  int ranks;
  std::uint32_t each;
  constexpr RowShards(const Rows& r, int n) : rows(r), ranks(n), each(shard_packs(r.packs, n)) {}
  constexpr Shard of(int owner) const { return shard_of(rows.packs, ranks, owner); }
  constexpr std::uint32_t place(std::uint32_t row, std::uint32_t j) const { return row * each + j; }
};

/// f(row, j) for the places that a lane has in the shard of one rank.
template <class F>
constexpr void each_place(const RowShards& shards, const RowLane& at, int owner, F f) {
  const std::uint32_t count = shards.of(owner).count;
  each_row(shards.rows, at, [&](std::uint32_t row) {
    for (std::uint32_t j = at.lane.first; j < count; j += at.lane.step) f(row, j);
  });
}

/// gather(row, j, got) takes the j-th pack of every rank's shard, its own too; then the epilogue goes on with the row.
template <class Memory, class Epilogue, class Gather>
constexpr bool finish_rows(const RowShards& shards, const RowLane& at, Epilogue& epilogue, bool ok, Gather gather) {
  const auto has = [&](int owner, std::uint32_t j) { return owner < shards.ranks && j < shards.of(owner).count; };
  each_row(shards.rows, at, [&](std::uint32_t row) {
    unrolled<Memory::most_ranks>([&](int owner) {
      if (has(owner, at.lane.first)) epilogue.expect(owner, row, shards.of(owner).begin + at.lane.first);
    });
    for (std::uint32_t j = at.lane.first; j < shards.each; j += at.lane.step) {
      Pack got[Memory::most_ranks];
      ok = ok && gather(row, j, got);
      unrolled<Memory::most_ranks>([&](int owner) {
        if (ok && has(owner, j)) epilogue.add(owner, j == at.lane.first, row, shards.of(owner).begin + j, got[owner]);
      });
    }
    epilogue.finish(row, [&](auto visit) {
      for (std::uint32_t j = at.lane.first; j < shards.each; j += at.lane.step)
        unrolled<Memory::most_ranks>([&](int owner) {
          if (has(owner, j)) visit(owner, j == at.lane.first, shards.of(owner).begin + j);
        });
    });
  });
  return ok;
}

}  // namespace detail

template <class Memory, class Epilogue>
constexpr bool rows_pull_two_stage(Memory& m, const Call& call, const Rows& rows, const RowLane& at, Epilogue& epilogue,
                                   bool ok) {
  const detail::RowShards shards(rows, call.ranks);
  m.settled(at.lane);
  for (int owner = 0; owner < call.ranks; ++owner)
    detail::each_place(shards, at, owner, [&](std::uint32_t row, std::uint32_t j) {
      m.expose(call, row * rows.packs + shards.of(owner).begin + j);
    });
  ok = m.all_agree(ok) && barrier(m, call, at.lane, 0, Stage::start);
  const std::uint32_t begin = shards.of(call.rank).begin;
  if (ok)
    detail::each_place(shards, at, call.rank, [&](std::uint32_t row, std::uint32_t j) {
      const std::uint32_t i = row * rows.packs + begin + j;
      m.write(m.own().reduced + shards.place(row, j),
              rotated_sum(m, call, [&](int source) { return m.peer(source).input + i; }));
    });
  ok = m.all_agree(ok) && barrier(m, call, at.lane, 1, Stage::middle);
  return detail::finish_rows<Memory>(shards, at, epilogue, ok,
                                     [&](std::uint32_t row, std::uint32_t j, Pack(&got)[Memory::most_ranks]) {
                                       for (int owner = 0; owner < Memory::most_ranks; ++owner)
                                         if (owner < call.ranks && j < shards.of(owner).count)
                                           got[owner] = m.read(m.peer(owner).reduced + shards.place(row, j));
                                       return true;
                                     });
}

namespace detail {

/// For two stages by writes, where data is its own flag: any thread may take what any other one has sent. So a thread
/// sends and gathers packs of a row as in one shot, whoever's they are, and sums places of its rank's shard.
///   send(owner, row, j, pack)   to the owner of the j-th place
///   reduce(row, j)              own shard: sums, and sends to all, itself too
///   gather(owner, row, j, got)  takes the sum
template <class Memory>
struct RowStages {
  Memory& m;
  const Call& call;
  const RowShards& shards;
  const RowLane& at;
  int own;  // the shard that this rank sums

  template <class F>
  constexpr void each_pack(std::uint32_t row, F f) const {
    for (std::uint32_t p = at.lane.first; p < shards.rows.packs; p += at.lane.step)
      f(p, static_cast<int>(p / shards.each), row, p % shards.each);
  }
  template <class Send>
  constexpr void scatter(Send send) const {
    each_row(shards.rows, at, [&](std::uint32_t row) {
      each_pack(row, [&](std::uint32_t p, int owner, std::uint32_t, std::uint32_t j) {
        if (owner != own) send(owner, row, j, m.take(call, row * shards.rows.packs + p));
      });
    });
  }
  template <class Epilogue, class Gather>
  constexpr bool finish(Epilogue& epilogue, bool ok, Gather gather) const {
    each_row(shards.rows, at, [&](std::uint32_t row) {
      if (at.lane.first < shards.rows.packs) epilogue.expect(0, row, at.lane.first);
      each_pack(row, [&](std::uint32_t p, int owner, std::uint32_t, std::uint32_t j) {
        Pack got;
        ok = ok && gather(owner, row, j, got);
        if (ok) epilogue.add(0, p == at.lane.first, row, p, got);
      });
      epilogue.finish(row, [&](auto visit) {
        each_pack(row, [&](std::uint32_t p, int, std::uint32_t, std::uint32_t) { visit(0, p == at.lane.first, p); });
      });
    });
    return ok;
  }
  /// Takes the pack that `from` sends to `slot`, and empties it.
  constexpr bool take(const Awaited& what, typename Memory::Word* slot, Pack& got) const {
    if (!wait_for(m, what, [&] { return arrived(got = m.load_pack(slot)); })) return false;
    m.store_pack(slot, Pack{});
    got = from_wire(got, Memory::Sum::negative_zeros);
    return true;
  }
};

}  // namespace detail

/// A rank sends its sums to itself too: the place is free, and it need not keep them.
template <class Memory, class Epilogue>
constexpr bool rows_push_two_stage(Memory& m, const Call& call, const Rows& rows, const RowLane& at, Epilogue& epilogue,
                                   bool ok) {
  const detail::RowShards shards(rows, call.ranks);
  const detail::ShardSlots<Memory> slots(m, call, at.lane);
  const detail::RowStages<Memory> stages{m, call, shards, at, call.rank};
  constexpr std::uint32_t zeros = Memory::Sum::negative_zeros;
  if (ok)
    stages.scatter([&](int owner, std::uint32_t row, std::uint32_t j, const Pack& pack) {
      m.store_pack(m.peer(owner).partials + slots(call.rank, shards.place(row, j)), to_wire(pack, zeros));
    });
  m.settled(at.lane);
  detail::each_place(shards, at, call.rank, [&](std::uint32_t row, std::uint32_t j) {
    const std::uint32_t i = row * rows.packs + shards.of(call.rank).begin + j;
    Pack got[Memory::most_ranks];
    const Pack own = to_wire(m.take(call, i), zeros);
    const auto from = [&](int source) { return m.own().partials + slots(source, shards.place(row, j)); };
    ok = ok && take_arrivals(m, call, {0, Stage::partial, i}, from, got);
    if (!ok) return;
    const Pack result = to_wire(sum_of<Memory>(call, got, own), zeros);
    for (int k = 0; k < Memory::most_ranks; ++k)
      if (k < call.ranks) m.store_pack(m.peer(later(call, k)).results + slots(call.rank, shards.place(row, j)), result);
  });
  return stages.finish(epilogue, ok, [&](int owner, std::uint32_t row, std::uint32_t j, Pack& got) {
    const std::uint32_t i = row * rows.packs + shards.of(owner).begin + j;
    return stages.take({owner, Stage::result, i}, m.own().results + slots(owner, shards.place(row, j)), got);
  });
}

}  // namespace specstep::comm::protocol
