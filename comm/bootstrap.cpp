// Ranks as threads of one process.
#include "comm/bootstrap.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {

namespace {

/// What the ends share. One meeting at a time: the next one cannot be complete before every rank has left this one,
/// since each rank is needed for it.
class Meeting {
 public:
  Meeting(int ranks, double limit_seconds)
      : ranks_(ranks), limit_seconds_(limit_seconds), given_(static_cast<std::size_t>(ranks)) {}

  int ranks() const { return ranks_; }

  std::vector<std::string> gather(int rank, const std::string& mine, const std::string& what) {
    std::unique_lock lock(mutex_);
    if (!failure_.empty()) throw_failure(rank, what);
    if (arrived_ == 0) what_ = what;
    if (what != what_) {
      settle(formatted("ranks are out of step: rank {} came for '{}' while others wait for '{}'", rank, what, what_));
      throw_failure(rank, what);
    }
    given_[static_cast<std::size_t>(rank)] = mine;
    if (++arrived_ == ranks_) {
      complete();
      return gathered_;
    }
    const std::uint64_t now = round_;
    const auto ended = [&] { return round_ != now || !failure_.empty(); };
    if (!changed_.wait_for(lock, std::chrono::duration<double>(limit_seconds_), ended))
      settle(formatted("{} did not arrive at '{}' within {} s", absent(), what, limit_seconds_));
    // A meeting that was complete before another rank failed is still good.
    if (round_ == now) throw_failure(rank, what);
    return gathered_;
  }

  void fail(const std::string& reason) {
    const std::lock_guard lock(mutex_);
    settle(reason);
  }

 private:
  void complete() {
    gathered_.clear();
    for (std::optional<std::string>& part : given_) {
      gathered_.push_back(std::move(*part));
      part.reset();
    }
    arrived_ = 0;
    ++round_;
    changed_.notify_all();
  }

  void settle(const std::string& reason) {
    if (failure_.empty()) failure_ = reason;
    changed_.notify_all();
  }

  std::string absent() const {
    std::string names;
    int count = 0;
    for (std::size_t r = 0; r < given_.size(); ++r) {
      if (given_[r]) continue;
      names += formatted("{}{}", names.empty() ? "" : ", ", r);
      ++count;
    }
    return (count == 1 ? "rank " : "ranks ") + names;
  }

  [[noreturn]] void throw_failure(int rank, const std::string& what) const {
    throw Error(formatted("rank {}, at '{}': {}", rank, what, failure_));
  }

  const int ranks_;
  const double limit_seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::optional<std::string>> given_;  // of the meeting under way
  std::string what_;
  int arrived_ = 0;
  std::uint64_t round_ = 0;
  std::vector<std::string> gathered_;  // of the last complete meeting
  std::string failure_;                // the first one, for good
};

class ThreadEnd final : public Bootstrap {
 public:
  ThreadEnd(std::shared_ptr<Meeting> meeting, int rank) : meeting_(std::move(meeting)), rank_(rank) {}
  ~ThreadEnd() override { fail_as("has left"); }
  ThreadEnd(const ThreadEnd&) = delete;
  ThreadEnd& operator=(const ThreadEnd&) = delete;

  int rank() const override { return rank_; }
  int ranks() const override { return meeting_->ranks(); }
  int local_rank() const override { return rank_; }
  int local_ranks() const override { return meeting_->ranks(); }
  std::vector<std::string> all_gather(const std::string& mine, const std::string& what) override {
    return meeting_->gather(rank_, mine, what);
  }
  void fail(const std::string& reason) noexcept override { fail_as("failed: " + reason); }

 private:
  void fail_as(const std::string& story) noexcept { meeting_->fail(formatted("rank {} {}", rank_, story)); }

  std::shared_ptr<Meeting> meeting_;
  int rank_;
};

}  // namespace

std::vector<std::unique_ptr<Bootstrap>> thread_bootstrap(int ranks, double wait_limit_seconds) {
  if (ranks < 1) throw std::logic_error(formatted("a group of {} ranks", ranks));
  const auto meeting = std::make_shared<Meeting>(ranks, wait_limit_seconds);
  std::vector<std::unique_ptr<Bootstrap>> ends;
  ends.reserve(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) ends.push_back(std::make_unique<ThreadEnd>(meeting, r));
  return ends;
}

bool under_mpi() { return std::getenv("OMPI_COMM_WORLD_SIZE") || std::getenv("PMI_SIZE"); }

}  // namespace specstep::comm
