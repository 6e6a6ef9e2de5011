// Starting and ending MPI, each within a limit: both wait for every rank, and MPI itself would wait for ever.
#include "sim/mpi/session.h"

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::mpi {

namespace {

void say(const std::string& text) noexcept {
  std::fprintf(stderr, "specstep: %s\n", text.c_str());
  std::fflush(stderr);
}

/// Ends this process when the limit passes before the object goes: mpirun then ends the others, since this one ended
/// with an error. MPI_Abort is no way out here: a thread is inside MPI.
class Watchdog {
 public:
  Watchdog(double limit_seconds, std::string_view what)
      : thread_([this, limit_seconds, what] { watch(limit_seconds, what); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
  }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void watch(double limit_seconds, std::string_view what) {
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, std::chrono::duration<double>(limit_seconds), [&] { return done_; })) return;
    say(formatted("{} did not return within {} s: a rank is missing or stuck", what, limit_seconds));
    std::_Exit(EXIT_FAILURE);
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::jthread thread_;  // last: starts when the rest is there
};

}  // namespace

void check(int status, const char* call) {
  if (status == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  throw Error(formatted("{}: {}", call, std::string_view(text, static_cast<std::size_t>(length))));
}

Session& Session::of_process(double wait_limit_seconds) {
  static Session session(wait_limit_seconds);
  return session;
}

Session::Session(double wait_limit_seconds) : wait_limit_seconds_(wait_limit_seconds) {
  const Watchdog watchdog(wait_limit_seconds, "starting MPI (MPI_Init_thread)");
  int provided = 0;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  if (provided < MPI_THREAD_SERIALIZED)
    throw Error("this MPI library serves one thread only; a build of it with MPI_THREAD_SERIALIZED is needed");
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &ranks_), "MPI_Comm_size");
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host), "MPI_Comm_split_type");
  check(MPI_Comm_rank(host, &local_rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(host, &local_ranks_), "MPI_Comm_size");
  check(MPI_Comm_free(&host), "MPI_Comm_free");
}

Session::~Session() {
  int finalized = 0;
  if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized) return;
  const Watchdog watchdog(wait_limit_seconds_, "ending MPI (MPI_Finalize)");
  MPI_Finalize();
}

void Session::abort_all(const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);  // kept: whoever comes second waits here for the end
  say(formatted("rank {} of {}: {}", rank_, ranks_, reason));
  MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace specstep::mpi
