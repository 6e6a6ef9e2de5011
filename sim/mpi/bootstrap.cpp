// Meetings as one message from each rank to each: unlike MPI_Allgather, that tells which rank is missing.
#include "sim/mpi/bootstrap.h"

#include <algorithm>
#include <chrono>
#include <climits>
#include <thread>

#include "model/base/error.h"
#include "model/base/formatted.h"
#include "sim/mpi/session.h"

namespace specstep::mpi {

namespace {

constexpr int message_tag = 0;  // messages of one sender arrive in order, one for each meeting

/// One meeting of one rank. Messages are "<what>\0<part>".
class Exchange {
 public:
  Exchange(int rank, int ranks, const std::string& message)
      : rank_(rank),
        messages_(static_cast<std::size_t>(ranks)),
        sends_(messages_.size(), MPI_REQUEST_NULL),
        receives_(messages_.size(), MPI_REQUEST_NULL),
        announced_(messages_.size(), false) {
    messages_[static_cast<std::size_t>(rank)] = message;
    announced_[static_cast<std::size_t>(rank)] = true;
  }

  void send() {
    const std::string& mine = messages_[static_cast<std::size_t>(rank_)];
    for (std::size_t r = 0; r < messages_.size(); ++r)
      if (static_cast<int>(r) != rank_)
        check(MPI_Isend(mine.data(), static_cast<int>(mine.size()), MPI_BYTE, static_cast<int>(r), message_tag,
                        MPI_COMM_WORLD, &sends_[r]),
              "MPI_Isend");
  }

  /// Takes what has come; true when all has come and gone.
  bool advance() {
    for (std::size_t r = 0; r < messages_.size(); ++r)
      if (!announced_[r]) look_for(r);
    const bool all = std::all_of(announced_.begin(), announced_.end(), [](bool known) { return known; });
    return ended(receives_) && all && ended(sends_);
  }

  /// "ranks 1, 2": those whose message has not come.
  std::string absent() const {
    std::string names;
    for (std::size_t r = 0; r < messages_.size(); ++r)
      if (!announced_[r]) names += formatted("{}rank {}", names.empty() ? "" : ", ", r);
    return names.empty() ? "a rank" : names;
  }

  std::vector<std::string> take() { return std::move(messages_); }

 private:
  void look_for(std::size_t r) {
    int there = 0, bytes = 0;
    MPI_Status status;
    check(MPI_Iprobe(static_cast<int>(r), message_tag, MPI_COMM_WORLD, &there, &status), "MPI_Iprobe");
    if (!there) return;
    check(MPI_Get_count(&status, MPI_BYTE, &bytes), "MPI_Get_count");
    messages_[r].resize(static_cast<std::size_t>(bytes));
    check(MPI_Irecv(messages_[r].data(), bytes, MPI_BYTE, static_cast<int>(r), message_tag, MPI_COMM_WORLD,
                    &receives_[r]),
          "MPI_Irecv");
    announced_[r] = true;
  }

  static bool ended(std::vector<MPI_Request>& requests) {
    int done = 0;
    check(MPI_Testall(static_cast<int>(requests.size()), requests.data(), &done, MPI_STATUSES_IGNORE), "MPI_Testall");
    return done != 0;
  }

  int rank_;
  std::vector<std::string> messages_;
  std::vector<MPI_Request> sends_, receives_;
  std::vector<bool> announced_;  // a message whose length is known
};

class ProcessEnd final : public comm::Bootstrap {
 public:
  explicit ProcessEnd(double limit_seconds)
      : session_(Session::of_process(limit_seconds)), limit_seconds_(limit_seconds) {}

  int rank() const override { return session_.rank(); }
  int ranks() const override { return session_.ranks(); }
  int local_rank() const override { return session_.local_rank(); }
  int local_ranks() const override { return session_.local_ranks(); }

  std::vector<std::string> all_gather(const std::string& mine, const std::string& what) override {
    if (mine.size() > INT_MAX / 2) throw Error(formatted("'{}': a part of {} bytes is too long", what, mine.size()));
    Exchange exchange(rank(), ranks(), what + '\0' + mine);
    try {
      finish(exchange, what);
    } catch (const Error& e) {
      session_.abort_all(e.what());  // buffers that MPI still writes to must not be freed
    }
    std::vector<std::string> all = exchange.take();
    for (std::size_t r = 0; r < all.size(); ++r) {
      const std::size_t end = all[r].find('\0');
      if (all[r].compare(0, end, what) != 0)
        fail(formatted("ranks are out of step: this one is at '{}', rank {} at '{}'", what, r, all[r].substr(0, end)));
      all[r].erase(0, end + 1);
    }
    return all;
  }

  void fail(const std::string& reason) noexcept override { session_.abort_all(reason); }

 private:
  void finish(Exchange& exchange, const std::string& what) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    {
      const std::lock_guard lock(session_.mutex());
      exchange.send();
    }
    for (;;) {
      {
        const std::lock_guard lock(session_.mutex());
        if (exchange.advance()) return;
      }
      const std::chrono::duration<double> waited = Clock::now() - start;
      if (waited.count() > limit_seconds_)
        throw Error(formatted("{} did not arrive at '{}' within {} s", exchange.absent(), what, limit_seconds_));
      // Ranks that come together meet in microseconds; one that is late should find the cores free.
      if (waited < std::chrono::milliseconds(1))
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }

  Session& session_;
  double limit_seconds_;
};

}  // namespace

std::unique_ptr<comm::Bootstrap> mpi_bootstrap(double wait_limit_seconds) {
  return std::make_unique<ProcessEnd>(wait_limit_seconds);
}

}  // namespace specstep::mpi
