// Ranks as threads: started once, each pass runs on all of them.
#pragma once

#include <atomic>
#include <barrier>
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace specstep::host {

class Team {
 public:
  explicit Team(int ranks);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  int ranks() const { return ranks_; }
  /// Calls work(rank) on every rank and returns when all are done. A rank that throws ends the others at their next
  /// meeting; its error is thrown here, and the team can be used again.
  void run(const std::function<void(int)>& work);
  /// Inside work: all ranks meet. Every rank must call it equally often.
  void meet();
  /// What the last rank to arrive does at each meeting, before any goes on. An error ends all ranks, like one of
  /// theirs.
  void at_meetings(std::function<void()> act) { act_ = std::move(act); }

 private:
  struct Meeting {
    Team* team;
    void operator()() const noexcept { team->met(); }
  };
  void met() noexcept;
  void blame(std::exception_ptr error);
  void serve(const std::stop_token& stop, int rank);
  void carry_out(int rank);

  int ranks_;
  std::optional<std::barrier<Meeting>> barrier_;
  std::atomic<bool> failed_ = false;
  std::function<void()> act_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  const std::function<void(int)>* work_ = nullptr;
  std::uint64_t job_ = 0;
  int running_ = 0;
  std::exception_ptr error_;
  std::vector<std::jthread> threads_;  // last: stops before what it uses is gone
};

}  // namespace specstep::host
