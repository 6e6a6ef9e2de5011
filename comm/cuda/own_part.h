// What a rank can do alone: put its own part where the collective would.
#pragma once

#include "comm/cuda/device_comm.h"

namespace specstep::comm {

/// A copy on the device; nothing where both are one.
struct OwnCopy {
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;
};

/// The one copy that each collective makes of a rank's own part: all_gather: part to all[rank]; reduce_scatter:
/// values[rank] to part; all_to_all: from[rank] to to[rank]. `count` values of a part.
OwnCopy own_part_to(const void* part, void* all, int rank, std::int64_t count, DType dtype);
OwnCopy own_part_from(const void* all, void* part, int rank, std::int64_t count, DType dtype);
OwnCopy own_part_within(const void* from, void* to, int rank, std::int64_t count, DType dtype);

/// Bytes of `count` values; throws Unsupported for types that no collective carries.
std::size_t value_bytes(std::int64_t count, DType dtype);

/// Ranks that exchange nothing: each copies its own part into place and leaves the parts of the others as they are, and
/// an all_reduce leaves the values. For one rank that is the whole collective.
class OwnPart : public DeviceComm {
 public:
  OwnPart(int rank, std::string note) : rank_(rank), note_(std::move(note)) {}
  void all_reduce(void* values, std::int64_t count, DType dtype, cudaStream_t stream) override;
  void all_gather(const void* part, void* all, std::int64_t count, DType dtype, cudaStream_t stream) override;
  void reduce_scatter(const void* values, void* part, std::int64_t count, DType dtype, cudaStream_t stream) override;
  void all_to_all(const void* from, void* to, std::int64_t count, DType dtype, cudaStream_t stream) override;
  std::vector<std::string> notes() const override { return {note_}; }
  std::int64_t device_bytes() const override { return 0; }
  void check_health() override {}
  void abort() noexcept override {}

 private:
  int rank_;
  std::string note_;
};

}  // namespace specstep::comm
