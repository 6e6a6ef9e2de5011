// What a rank on a device asks of a backend.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/bootstrap.h"
#include "comm/nccl_settings.h"
#include "comm/own_settings.h"
#include "comm/topology.h"
#include "model/base/dtype.h"

namespace specstep::comm {

/// An allreduce of rows that goes on with the residual sum and the norm of those rows. The sum is rounded once, as
/// all_reduce rounds it, then added to the residual, which is written back rounded; the norm is that of the written
/// residual: so residuals are bit for bit those of the two steps apart, and equal on all ranks. Arrays do not overlap.
struct FusedNorm {
  void* values = nullptr;      // [rows][width] this rank's part; afterwards anything
  void* residual = nullptr;    // [rows][width] += the sum
  const void* gain = nullptr;  // [width]
  void* out = nullptr;         // [rows][width]: residual / sqrt(mean square + epsilon) * gain
  std::int64_t rows = 0, width = 0;
  DType dtype = DType::bf16;  // of all of them
  float epsilon = 1e-6F;
  void* copy_residual = nullptr;  // [rows], one every copy_stride values: the written residual once more, or none
  std::int64_t copy_stride = 0;
};

/// One rank's end of the collectives among `ranks` ranks. Calls are put on a stream and return at once; they may be
/// captured in a graph (thread-local mode). All ranks make the same calls in the same order. Values are f32, f16 or
/// bf16. A rank's own part may already lie in place. Graphs that hold calls end before the communicator does.
class DeviceComm {
 public:
  virtual ~DeviceComm() = default;
  /// values = sum over ranks, in place.
  virtual void all_reduce(void* values, std::int64_t count, DType dtype, cudaStream_t stream) = 0;
  /// Whether all_reduce_norm is one kernel for the sizes that it is meant for: tokens of a decode or a verify pass.
  virtual bool fuses_norm() const { return false; }
  /// Throws Unsupported where the backend cannot. All ranks pass equal rows, widths and types, and arrays that all
  /// begin at 16 bytes or on no rank. Calls beyond what a kernel holds are two steps, with the same result but for the
  /// order in which squares are added.
  virtual void all_reduce_norm(const FusedNorm& call, cudaStream_t stream);
  /// all[r] = part of rank r; `count` values a rank.
  virtual void all_gather(const void* part, void* all, std::int64_t count, DType dtype, cudaStream_t stream) = 0;
  /// part = this rank's of `ranks` equal parts of the sum; `count` values in a part.
  virtual void reduce_scatter(const void* values, void* part, std::int64_t count, DType dtype, cudaStream_t stream) = 0;
  /// to[r] = what rank r has for this one; `count` values for each rank.
  virtual void all_to_all(const void* from, void* to, std::int64_t count, DType dtype, cudaStream_t stream) = 0;
  /// Device memory that this backend's calls work on fastest; empty where any is as good. All ranks ask together for
  /// equal sizes, and give calls equal places in it; then it need not be copied. It ends before the communicator does.
  virtual std::shared_ptr<void> allocate(std::size_t /*bytes*/) { return nullptr; }
  /// While on, calls launch what they launch, exchange nothing and wait for nobody: a pass is rehearsed, so that what
  /// the driver does with a first launch is done before ranks that share a device wait for each other there. Backends
  /// that want a device for each rank need none of it.
  virtual void rehearse(bool /*on*/) {}
  /// What goes into the result: versions, algorithm, protocol, settings.
  virtual std::vector<std::string> notes() const = 0;
  /// Device bytes that opening took on this rank. NCCL takes some more with the first use of each algorithm.
  virtual std::int64_t device_bytes() const = 0;
  /// Throws Error when the backend met a failure since the last look. Never blocks.
  virtual void check_health() = 0;
  /// Ends what is under way, from any thread, so that streams drain.
  virtual void abort() noexcept = 0;
};

struct CommRequest {
  std::string backend;  // an id of comm/backends
  NcclSettings nccl;
  OwnSettings own;
  /// delay: the fabric whose prices are waited for; copied by open_comm. island: where islands are found.
  const Topology* target = nullptr;
  int target_ranks = 1;  // delay: of which this group's ranks are the first
  double wait_limit_seconds = 30;
  std::uint32_t first_epoch = 0;  // own backends: count of the call before the first one; tests begin near its wrap
};

/// The second step alone, of rows that are summed already: residual += values, out = its norm. One kernel.
void add_norm(const FusedNorm& call, cudaStream_t stream);

/// Opens this rank's end; every rank of the group calls it with its own device current. Throws Unsupported with the
/// reason where the backend cannot run here (no library, ranks that share a GPU, ...), Error when opening fails.
std::unique_ptr<DeviceComm> open_comm(const CommRequest& request, Bootstrap& group);

}  // namespace specstep::comm
