// Ranks as threads for the protocol tests: integer data whose sum is known, random delays, a first mistake kept.
#pragma once

#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "comm/protocol/host_team.h"

namespace specstep::comm::protocol::testing {

/// Largest magnitude of what a rank puts in, so that all of a protocol's sums are exact: of eight ranks in bf16, and
/// in the four significant bits of fp8.
constexpr int most_of(Protocol protocol) { return protocol == Protocol::quantised_two_stage ? 1 : 8; }

/// An integer of at most this magnitude for each rank and key. Zeros are frequent, and with the last key all ranks have
/// them: the sum must be +0 too.
inline constexpr std::uint32_t keys = 24;
constexpr int value_of(int rank, std::uint32_t key, int most) {
  if (key == keys - 1) return 0;
  const std::uint32_t mixed = (static_cast<std::uint32_t>(rank) * 7U + key) % (keys - 1);
  return mixed > 16 ? 0 : static_cast<int>(mixed % (2 * static_cast<std::uint32_t>(most) + 1)) - most;
}
constexpr std::uint32_t bf16_of(int value) { return std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16; }

/// What each rank puts in and what must come out, by the key of a word: worked out once, so that a test of many calls
/// spends its time on the protocol. Words of two zeros occur on every rank.
struct Words {
  static constexpr std::uint32_t other(std::uint32_t key) { return key == keys - 1 ? key : (key + 3) % (keys - 1); }
  std::vector<std::vector<std::uint32_t>> in;
  std::vector<std::uint32_t> sum;
  explicit Words(int ranks, int most = 8) : sum(keys) {
    for (int rank = 0; rank < ranks; ++rank) {
      auto& words = in.emplace_back(keys);
      for (std::uint32_t key = 0; key < keys; ++key)
        words[key] = bf16_of(value_of(rank, key, most)) | (bf16_of(value_of(rank, other(key), most)) << 16);
    }
    for (std::uint32_t key = 0; key < keys; ++key) {
      int low = 0, high = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        low += value_of(rank, key, most);
        high += value_of(rank, other(key), most);
      }
      sum[key] = bf16_of(low) | (bf16_of(high) << 16);
    }
  }
  /// Pack `pack` of call `call` from one of the tables.
  static Pack pack(const std::vector<std::uint32_t>& table, std::uint32_t call, std::uint32_t pack) {
    Pack out;
    for (std::uint32_t w = 0; w < words_per_pack; ++w)
      out.word[w] = table[(call * 13U + (pack * words_per_pack + w) * 5U) % keys];
    return out;
  }
  void fill(std::vector<Pack>& input, int rank, std::uint32_t call) const {
    for (std::uint32_t p = 0; p < input.size(); ++p) input[p] = pack(in[static_cast<std::size_t>(rank)], call, p);
  }
  bool holds(const std::vector<Pack>& out, std::uint32_t packs, std::uint32_t call) const {
    for (std::uint32_t p = 0; p < packs; ++p)
      if (out[p] != pack(sum, call, p)) return false;
    return true;
  }
};

/// Divisions of different kinds: one island, islands of one, and equal ones with shifted pairs.
inline std::vector<std::vector<int>> islands_of(int ranks) {
  switch (ranks) {
    case 2:
      return {{0}, {1}};
    case 4:
      return {{0, 2}, {3, 1}};
    case 6:
      return {{0, 3}, {1, 4}, {5, 2}};
    case 7:
      return {{6}, {5}, {4}, {3}, {2}, {1}, {0}};
    case 8:
      return {{0, 1, 2, 3}, {5, 6, 7, 4}};
    default:
      return {};
  }
}

/// The calls of a graph that is replayed: sizes from less than a pack per rank to several, grids that change. Where
/// ranks share out groups of packs, sizes are those of groups and parts of them.
constexpr std::uint32_t unit_of(Protocol protocol) { return protocol == Protocol::quantised_two_stage ? 13 : 1; }
inline HostTeam::CallShape shape_of(Protocol protocol, std::uint32_t call) {
  const std::uint32_t node = call % 15;
  return {protocol, static_cast<std::int32_t>(node), (1 + node * 7 % 11) * unit_of(protocol), 1 + node / 3 % 3};
}
constexpr Capacity capacity_of(int ranks, std::uint32_t unit = 1) { return {ranks, 11 * unit, 3}; }

struct Rehearsal {
  Protocol protocol{};
  int ranks = 2;
  std::uint32_t calls = 1000;
  std::uint32_t first_epoch = 0xFFFFFFFBU;  // 2^32 - 5: the count wraps within the first calls
  std::uint32_t seed = 1;
};

/// One rank's calls with checks. The first mistake, or nothing.
inline std::string play(HostTeam& team, const Rehearsal& r, const Words& words, int rank) {
  std::minstd_rand random(r.seed * 97 + static_cast<std::uint32_t>(rank));
  std::vector<Pack> out(capacity_of(r.ranks, unit_of(r.protocol)).packs);
  std::string mistake;
  if (rank == r.ranks - 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));  // one starts late
  for (std::uint32_t call = 0; call < r.calls; ++call) {
    const HostTeam::CallShape shape = shape_of(r.protocol, call);
    words.fill(team.input(rank), rank, call);
    if (random() % 64 == 0)
      for (auto k = random() % 8; k > 0; --k) std::this_thread::yield();
    if (random() % 4096 == 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
    team.allreduce(rank, shape, out.data());
    if (!words.holds(out, shape.packs, call) && mistake.empty())
      mistake = "rank " + std::to_string(rank) + ", call " + std::to_string(call) + ": a wrong sum";
  }
  return mistake;
}

/// All ranks at once. The first mistake of any, or why a call ended early.
inline std::string rehearse(const Rehearsal& r) {
  HostTeam team(
      {capacity_of(r.ranks, unit_of(r.protocol)), r.first_epoch, std::chrono::minutes(2), islands_of(r.ranks)});
  const Words words(r.ranks, most_of(r.protocol));
  std::vector<std::string> mistakes(static_cast<std::size_t>(r.ranks));
  {
    std::vector<std::jthread> threads;
    threads.reserve(static_cast<std::size_t>(r.ranks));
    for (int rank = 0; rank < r.ranks; ++rank)
      threads.emplace_back([&, rank] {
        try {
          mistakes[static_cast<std::size_t>(rank)] = play(team, r, words, rank);
        } catch (const CallAborted& e) {
          mistakes[static_cast<std::size_t>(rank)] = e.what();
        }
      });
  }
  for (const std::string& mistake : mistakes)
    if (!mistake.empty()) return mistake;
  return "";
}

}  // namespace specstep::comm::protocol::testing
