// The memory policy of threads: inboxes of atomics, waits that yield. See memory.h for what each operation promises.
//
// A device orders the reuse of a slot by the boundary between kernels; threads have none, so words are stored with
// release and loaded with acquire. Inputs and summed shards are ordinary memory: a race detector then proves that the
// barriers protect them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "comm/protocol/memory.h"
#include "comm/protocol/wait_record.h"

namespace specstep::comm::protocol {

using HostWord = std::atomic<std::uint32_t>;
using HostPair = std::atomic<std::uint64_t>;
using HostInbox = Inbox<HostWord, HostPair>;

/// One rank's inboxes, and the record of its failure.
class HostRank {
 public:
  HostRank(const Capacity& capacity, const IslandPlan& islands);
  /// Empties all inboxes and sets flags and epoch to `epoch`: the first fill, and the fill after a failure. No call may
  /// be running.
  void reset(std::uint32_t epoch);

  const HostInbox& inbox() const { return inbox_; }
  std::vector<Pack>& input() { return input_; }
  /// The first failure is kept.
  void fail(const WaitRecord& record) {
    const std::lock_guard lock(mutex_);
    if (!record_) record_ = record;
  }
  std::optional<WaitRecord> record() const {
    const std::lock_guard lock(mutex_);
    return record_;
  }

 private:
  std::vector<HostWord> packs_, partials_, results_, crossings_, cells_, flags_;
  std::vector<HostPair> lines_, hops_, board_;
  HostWord epoch_{0}, entered_{0};
  std::vector<Pack> input_, shown_, reduced_, parts_, gathered_;
  HostInbox inbox_;
  mutable std::mutex mutex_;
  std::optional<WaitRecord> record_;
};

/// The view that one block of one rank has of all inboxes, for one call.
class HostMemory {
 public:
  using Word = HostWord;
  using Pair = HostPair;
  using Sum = Bf16Sum;
  static constexpr int most_ranks = 8;
  static constexpr int lanes_of_group = 1;
  static constexpr std::uint32_t spins_between_checks =
      1U << 8;  // a look is followed by a yield or a short sleep: 1 to 20 ms

  struct Control {
    Capacity capacity;
    IslandPlan islands;
    std::vector<HostInbox> inboxes;
    std::atomic<bool> abort{false};
  };
  HostMemory(Control& control, HostRank& rank, const WaitRecord& call, int own,
             std::chrono::steady_clock::time_point deadline)
      : control_(control), rank_(rank), call_(call), own_(static_cast<std::size_t>(own)), deadline_(deadline) {}

  const HostInbox& own() const { return control_.inboxes[own_]; }
  const HostInbox& peer(int rank) const { return control_.inboxes[static_cast<std::size_t>(rank)]; }
  const Capacity& capacity() const { return control_.capacity; }
  const IslandPlan& islands() const { return control_.islands; }
  void set_epoch(std::uint32_t epoch) { call_.epoch = epoch; }

  static std::uint32_t load(const HostWord* w) { return w->load(std::memory_order_acquire); }
  static void store(HostWord* w, std::uint32_t v) { w->store(v, std::memory_order_release); }
  static std::uint32_t add(HostWord* w, std::uint32_t v) { return w->fetch_add(v, std::memory_order_acq_rel); }
  static void store_halves(HostPair* a, HostPair* b, const Pack& pack, std::uint32_t epoch) {
    for (int w = 0; w < words_per_pack; ++w)
      (w < 2 ? a[w] : b[w - 2])
          .store(static_cast<std::uint64_t>(epoch) << 32 | pack.word[w], std::memory_order_release);
  }
  static bool load_halves(const HostPair* a, const HostPair* b, std::uint32_t epoch, Pack& pack) {
    for (int w = 0; w < words_per_pack; ++w) {
      const std::uint64_t pair = (w < 2 ? a[w] : b[w - 2]).load(std::memory_order_acquire);
      if (pair >> 32 != epoch) return false;
      pack.word[w] = static_cast<std::uint32_t>(pair);
    }
    return true;
  }
  static void store_line(HostPair* line, const Pack& pack, std::uint32_t epoch) {
    store_halves(line, line + 2, pack, epoch);
  }
  static bool load_line(const HostPair* line, std::uint32_t epoch, Pack& pack) {
    return load_halves(line, line + 2, epoch, pack);
  }
  static Pack load_pack(const HostWord* w) {
    Pack out;
    for (int k = 0; k < words_per_pack; ++k) out.word[k] = load(w + k);
    return out;
  }
  /// Each time another word first: a receiver that trusted one word alone would be caught.
  void store_pack(HostWord* w, const Pack& pack) {
    ++turn_;
    for (int k = 0; k < words_per_pack; ++k) {
      const int at = (k + turn_) % words_per_pack;
      store(w + at, pack.word[at]);
    }
  }
  static Pack read(const Pack* p) { return *p; }
  static void write(Pack* p, const Pack& v) { *p = v; }
  static Pack take(const Call& call, std::uint32_t i) { return call.in[i]; }
  static void put(const Call& call, std::uint32_t i, const Pack& v) { call.out[i] = v; }
  static void expose(const Call&, std::uint32_t) {}  // a team's inputs are read by all
  static void settled(const Lane&) {}                // enter_call has moved the epoch on
  template <class F>
  static void for_peers(int ranks, F f) {
    for (int peer = 0; peer < ranks; ++peer) f(peer);
  }
  static std::uint32_t greatest(std::uint32_t v) { return v; }
  static bool group_agrees(bool ok) { return ok; }
  static bool all_agree(bool ok) { return ok; }  // a block is one thread
  /// Lets the other ranks run. Where a yield turns out to hand the core to strangers for milliseconds, sleeps for a
  /// while instead: a sleeper is woken before programs that compute.
  void pause() {
    if (sleeps_left_ > 0) {
      --sleeps_left_;
      std::this_thread::sleep_for(std::chrono::nanoseconds(1));
      return;
    }
    const auto before = std::chrono::steady_clock::now();
    std::this_thread::yield();
    if (std::chrono::steady_clock::now() - before > std::chrono::microseconds(300)) sleeps_left_ = 256;
  }
  bool give_up(const Awaited& what) {
    if (!control_.abort.load(std::memory_order_acquire) && std::chrono::steady_clock::now() < deadline_) return false;
    WaitRecord record = call_;
    record.what = what;
    rank_.fail(record);
    control_.abort.store(true, std::memory_order_release);
    return true;
  }

 private:
  Control& control_;
  HostRank& rank_;
  WaitRecord call_;
  std::size_t own_;
  std::chrono::steady_clock::time_point deadline_;
  int turn_ = 0;
  int sleeps_left_ = 0;
};

}  // namespace specstep::comm::protocol
