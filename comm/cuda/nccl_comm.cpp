#include "comm/cuda/nccl_comm.h"

#include <algorithm>
#include <chrono>
#include <future>
#include <thread>

#include "comm/cuda/check.h"
#include "comm/cuda/nccl_group.h"
#include "comm/cuda/own_part.h"
#include "comm/cuda/rows.h"
#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {

namespace {

using Clock = std::chrono::steady_clock;

ncclDataType_t nccl_type(DType dtype) {
  value_bytes(0, dtype);  // refuses all others
  return dtype == DType::f32 ? ncclFloat32 : dtype == DType::f16 ? ncclFloat16 : ncclBfloat16;
}

std::size_t size(std::int64_t count) { return static_cast<std::size_t>(count); }

std::int64_t free_bytes() {
  std::size_t available = 0, total = 0;
  check(cudaMemGetInfo(&available, &total), "asking for free device memory");
  return static_cast<std::int64_t>(available);
}

}  // namespace

NcclComm::NcclComm(const CommRequest& request, Bootstrap& group, NcclCalls calls)
    : nccl_(nccl_library()),
      id_(request.backend),
      rank_(group.rank()),
      ranks_(group.ranks()),
      calls_(calls),
      limit_seconds_(request.wait_limit_seconds),
      settings_(settings_text(request.nccl)) {
  variables_ = nccl_variables();
  check(cudaGetDevice(&device_), "asking for the device");
  const std::int64_t before = free_bytes();
  try {
    open(request.nccl, group);
  } catch (...) {
    NcclComm::abort();
    throw;
  }
  device_bytes_ = std::max<std::int64_t>(0, before - free_bytes());  // others may give memory back meanwhile
}

void NcclComm::open(const NcclSettings& settings, Bootstrap& group) {
  ncclUniqueId id{};
  if (rank_ == 0 && nccl_.get_unique_id(&id) != ncclSuccess)
    throw Error(formatted("ncclGetUniqueId: {}", nccl_.last_error(nullptr)));
  const std::string mine = rank_ == 0 ? std::string(id.internal, sizeof id.internal) : "";
  const std::string first = group.all_gather(mine, "NCCL's unique id").front();
  first.copy(id.internal, sizeof id.internal);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = calls_ == NcclCalls::blocking ? 1 : 0;
  if (settings.min_channels > 0) config.minCTAs = static_cast<int>(settings.min_channels);
  if (settings.max_channels > 0) config.maxCTAs = static_cast<int>(settings.max_channels);
  follow("ncclCommInitRankConfig", [&] { return nccl_.comm_init(&comm_, ranks_, id, rank_, &config); });
}

NcclComm::~NcclComm() {
  try {
    call("ncclCommFinalize", [&](ncclComm_t comm) { return nccl_.comm_finalize(comm); });
  } catch (...) {
    NcclComm::abort();  // a communicator that does not end in time is given up
    return;
  }
  const std::lock_guard lock(mutex_);
  if (comm_) (void)nccl_.comm_destroy(comm_);
  comm_ = nullptr;
}

void NcclComm::call(const char* name, const std::function<ncclResult_t(ncclComm_t)>& make) {
  follow(name, [&]() -> ncclResult_t { return comm_ ? make(comm_) : ncclInvalidUsage; });
}

/// Ends by itself after the limit: what it waits in is aborted.
ncclResult_t NcclComm::beside(const char* name, const std::function<ncclResult_t()>& begin) {
  std::future<ncclResult_t> done = std::async(std::launch::async, [&] {
    check(cudaSetDevice(device_), "choosing a device");
    return begin();
  });
  if (done.wait_for(std::chrono::duration<double>(limit_seconds_)) == std::future_status::ready) return done.get();
  give_up(name, formatted("not done within {} s: a rank is missing or stuck", limit_seconds_));
}

void NcclComm::follow(const char* name, const std::function<ncclResult_t()>& begin) {
  const Clock::time_point start = Clock::now();
  ncclResult_t now = ncclInProgress;
  if (calls_ == NcclCalls::blocking) {
    now = beside(name, begin);
  } else {
    const std::lock_guard lock(mutex_);
    now = begin();
  }
  while (now == ncclInProgress) {
    const std::chrono::duration<double> waited = Clock::now() - start;
    if (waited.count() > limit_seconds_)
      give_up(name, formatted("not done within {} s: a rank is missing or stuck", limit_seconds_));
    if (waited < std::chrono::milliseconds(5))
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    now = state(name);
  }
  if (now != ncclSuccess) give_up(name, nccl_.error_text(now));
}

ncclResult_t NcclComm::state(const char* name) {
  const std::lock_guard lock(mutex_);
  if (!comm_) throw Error(formatted("{} on rank {}: the communicator was aborted", name, rank_));
  ncclResult_t now = ncclSuccess;
  const ncclResult_t asked = nccl_.comm_state(comm_, &now);
  return asked == ncclSuccess ? now : asked;
}

void NcclComm::give_up(const char* name, const std::string& why) {
  std::string details;
  {
    const std::lock_guard lock(mutex_);
    const char* last = comm_ ? nccl_.last_error(comm_) : nullptr;
    if (last && *last) details = formatted(" ({})", last);
    if (!comm_) details = " (the communicator was aborted)";
  }
  abort();
  throw Error(formatted("{} on rank {} of {}: {}{}", name, rank_, ranks_, why, details));
}

void NcclComm::all_reduce(void* values, std::int64_t count, DType dtype, cudaStream_t stream) {
  call("ncclAllReduce", [&](ncclComm_t comm) {
    return nccl_.all_reduce(values, values, size(count), nccl_type(dtype), ncclSum, comm, stream);
  });
}

void NcclComm::all_gather(const void* part, void* all, std::int64_t count, DType dtype, cudaStream_t stream) {
  call("ncclAllGather",
       [&](ncclComm_t comm) { return nccl_.all_gather(part, all, size(count), nccl_type(dtype), comm, stream); });
}

void NcclComm::reduce_scatter(const void* values, void* part, std::int64_t count, DType dtype, cudaStream_t stream) {
  call("ncclReduceScatter", [&](ncclComm_t comm) {
    return nccl_.reduce_scatter(values, part, size(count), nccl_type(dtype), ncclSum, comm, stream);
  });
}

void NcclComm::all_to_all(const void* from, void* to, std::int64_t count, DType dtype, cudaStream_t stream) {
  call("an all-to-all of ncclSend and ncclRecv",
       [&](ncclComm_t comm) { return exchange(comm, from, to, count, dtype, stream); });
}

ncclResult_t NcclComm::exchange(ncclComm_t comm, const void* from, void* to, std::int64_t count, DType dtype,
                                cudaStream_t stream) const {
  const std::size_t part = value_bytes(count, dtype);
  ncclResult_t worst = nccl_.group_start();
  const auto note = [&](ncclResult_t result) {
    if (result != ncclSuccess && result != ncclInProgress) worst = result;
  };
  for (int r = 0; r < ranks_; ++r) {
    const std::size_t at = static_cast<std::size_t>(r) * part;
    note(nccl_.send(static_cast<const char*>(from) + at, size(count), nccl_type(dtype), r, comm, stream));
    note(nccl_.receive(static_cast<char*>(to) + at, size(count), nccl_type(dtype), r, comm, stream));
  }
  const ncclResult_t ended = nccl_.group_end();  // also after a failure: the group is the thread's
  return worst == ncclSuccess ? ended : worst;
}

std::vector<std::string> NcclComm::notes() const {
  std::string given;
  for (const std::string& variable : variables_) given += formatted("{}{}", given.empty() ? "" : " ", variable);
  return {formatted("{}: NCCL {} (headers {}), {} ranks; {}", id_, nccl_version_text(nccl_.version),
                    nccl_version_text(NCCL_VERSION_CODE), ranks_, settings_),
          id_ + ": environment " + given,
          id_ + (calls_ == NcclCalls::blocking
                     ? ": an eager call includes a thread that is started for it"
                     : ": communicators do not block, so an eager call includes a thread that NCCL starts for it")};
}

void NcclComm::check_health() {
  const ncclResult_t now = state(id_.c_str());
  if (now == ncclSuccess || now == ncclInProgress) return;
  give_up(id_.c_str(), nccl_.error_text(now));
}

void NcclComm::abort() noexcept {
  const std::lock_guard lock(mutex_);
  if (comm_) (void)nccl_.comm_abort(comm_);
  comm_ = nullptr;
}

/// The settings go into the environment, which no rank may be reading then: CUDA reads it while it starts, so all ranks
/// have a device first.
void join_nccl(const CommRequest& request, Bootstrap& group, const std::function<void()>& fit) {
  NcclMember mine;
  mine.settings = settings_text(request.nccl);
  const auto attempt = [&](auto&& step) {
    try {
      if (mine.refusal.empty()) step();
    } catch (const Error& e) {
      mine.refusal = e.what();
    }
  };
  attempt([&] { mine.device = device_address(); });
  attempt([&] { mine.version = nccl_version_text(nccl_library().version); });
  if (fit) attempt(fit);
  group.barrier(formatted("a device on every rank, for {}", request.backend));
  attempt([&] { give_to_nccl(request.nccl); });
  require_nccl_group(mine, group, request.backend);
}

std::unique_ptr<DeviceComm> open_nccl(const CommRequest& request, Bootstrap& group) {
  join_nccl(request, group);
  if (group.ranks() == 1)
    return std::make_unique<OwnPart>(
        0, formatted("nccl: NCCL {}, one rank: nothing to exchange", nccl_version_text(nccl_library().version)));
  return std::make_unique<NcclComm>(request, group);
}

}  // namespace specstep::comm
