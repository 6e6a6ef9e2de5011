// A communicator of NCCL as one rank's end of the collectives: the nccl backend, and what nccl_sym and nccl_dev stand
// on.
#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "comm/cuda/device_comm.h"
#include "comm/cuda/nccl_library.h"

namespace specstep::comm {

/// How calls come back: at once, or when they are done. Each call is followed until NCCL has taken it, within the
/// limit, so that a missing rank is an error and not a hang; one that blocks is made by a thread of its own. NCCL 2.28
/// makes no windows for communicators that do not block.
enum class NcclCalls { nonblocking, blocking };

class NcclComm : public DeviceComm {
 public:
  /// Every rank calls it, its device current, after join_nccl.
  NcclComm(const CommRequest& request, Bootstrap& group, NcclCalls calls = NcclCalls::nonblocking);
  ~NcclComm() override;
  NcclComm(const NcclComm&) = delete;
  NcclComm& operator=(const NcclComm&) = delete;

  void all_reduce(void* values, std::int64_t count, DType dtype, cudaStream_t stream) override;
  void all_gather(const void* part, void* all, std::int64_t count, DType dtype, cudaStream_t stream) override;
  void reduce_scatter(const void* values, void* part, std::int64_t count, DType dtype, cudaStream_t stream) override;
  void all_to_all(const void* from, void* to, std::int64_t count, DType dtype, cudaStream_t stream) override;
  std::vector<std::string> notes() const override;
  std::int64_t device_bytes() const override { return device_bytes_; }
  void check_health() override;
  void abort() noexcept override;

  /// Makes a call and follows it until NCCL has taken it. Throws Error, and aborts, when that fails or takes too long.
  void call(const char* name, const std::function<ncclResult_t(ncclComm_t)>& make);
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

 private:
  ncclResult_t exchange(ncclComm_t comm, const void* from, void* to, std::int64_t count, DType dtype,
                        cudaStream_t stream) const;
  void open(const NcclSettings& settings, Bootstrap& group);
  void follow(const char* name, const std::function<ncclResult_t()>& begin);
  ncclResult_t beside(const char* name, const std::function<ncclResult_t()>& begin);
  ncclResult_t state(const char* name);
  [[noreturn]] void give_up(const char* name, const std::string& why);

  const NcclLibrary& nccl_;
  std::string id_;  // of the backend
  int rank_, ranks_;
  NcclCalls calls_;
  int device_ = 0;
  double limit_seconds_;
  std::vector<std::string> variables_;
  std::string settings_;
  std::int64_t device_bytes_ = 0;
  /// Held for each single call of NCCL that does not block and for no wait, so that abort() can come from any thread at
  /// any time.
  std::mutex mutex_;
  ncclComm_t comm_ = nullptr;  // null once aborted
};

/// Agrees with all ranks that NCCL can start, and hands it the settings. `fit` throws Unsupported where this rank's
/// library does not do. Throws Unsupported, alike on all ranks; see require_nccl_group.
void join_nccl(const CommRequest& request, Bootstrap& group, const std::function<void()>& fit = {});

}  // namespace specstep::comm
