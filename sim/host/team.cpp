#include "sim/host/team.h"

#include <utility>

namespace specstep::host {

namespace {
/// Thrown in the ranks that are not to blame.
struct Stopped {};
}  // namespace

Team::Team(int ranks) : ranks_(ranks), barrier_(std::in_place, ranks, Meeting{this}) {
  for (int rank = 1; rank < ranks; ++rank)
    threads_.emplace_back([this, rank](const std::stop_token& stop) { serve(stop, rank); });
}

Team::~Team() = default;

void Team::run(const std::function<void(int)>& work) {
  {
    const std::lock_guard lock(mutex_);
    work_ = &work;
    running_ = ranks_;
    ++job_;
  }
  changed_.notify_all();
  carry_out(0);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return running_ == 0; });
  if (!failed_) return;
  failed_ = false;
  barrier_.emplace(ranks_, Meeting{this});
  std::rethrow_exception(std::exchange(error_, nullptr));
}

void Team::meet() {
  if (ranks_ == 1) return met();
  barrier_->arrive_and_wait();
  if (failed_) throw Stopped{};
}

void Team::met() noexcept {
  if (failed_ || !act_) return;
  try {
    act_();
  } catch (...) {
    blame(std::current_exception());
  }
}

void Team::blame(std::exception_ptr error) {
  const std::lock_guard lock(mutex_);
  if (!error_) error_ = std::move(error);
  failed_ = true;
}

void Team::serve(const std::stop_token& stop, int rank) {
  std::uint64_t done = 0;
  while (true) {
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [&] { return job_ != done; })) return;
      done = job_;
    }
    carry_out(rank);
  }
}

void Team::carry_out(int rank) {
  try {
    (*work_)(rank);
  } catch (const Stopped&) {
    barrier_->arrive_and_drop();
  } catch (...) {
    blame(std::current_exception());
    barrier_->arrive_and_drop();
  }
  {
    const std::lock_guard lock(mutex_);
    --running_;
  }
  changed_.notify_all();
}

}  // namespace specstep::host
