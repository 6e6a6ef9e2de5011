#include "comm/cuda/wait.h"

#include <chrono>
#include <thread>

#include "comm/cuda/check.h"
#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {

void wait_for(cudaStream_t stream, DeviceComm& comm, double limit_seconds, std::string_view what) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  try {
    for (std::int64_t looks = 1;; ++looks) {
      const cudaError_t status = cudaStreamQuery(stream);
      if (status == cudaSuccess) return;
      if (status != cudaErrorNotReady) check(status, what);
      if (looks % 64 == 0) comm.check_health();
      const std::chrono::duration<double> waited = Clock::now() - start;
      if (waited.count() > limit_seconds)
        throw Error(formatted("{}: not done within {} s: a rank is missing or stuck", what, limit_seconds));
      // Passes take milliseconds, and each look costs the driver's lock: a short nap once it is clearly not at once.
      if (waited < std::chrono::milliseconds(50))
        std::this_thread::yield();
      else
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  } catch (const Error&) {
    comm.abort();
    throw;
  }
}

}  // namespace specstep::comm
