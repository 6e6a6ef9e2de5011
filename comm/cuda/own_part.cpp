#include "comm/cuda/own_part.h"

#include <stdexcept>

#include "comm/cuda/check.h"
#include "comm/cuda/rows.h"
#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {

namespace {

void carry_out(const OwnCopy& copy, cudaStream_t stream) {
  if (copy.bytes == 0) return;
  check(cudaMemcpyAsync(copy.to, copy.from, copy.bytes, cudaMemcpyDeviceToDevice, stream), "copying a rank's own part");
}

OwnCopy copy_of(const void* from, void* to, std::size_t bytes) { return {from, to, from == to ? 0 : bytes}; }

}  // namespace

std::size_t value_bytes(std::int64_t count, DType dtype) {
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16)
    throw Unsupported(formatted("collectives of {} values on devices; there are f32, f16, bf16", name_of(dtype)));
  if (count < 0) throw std::logic_error(formatted("a collective of {} values", count));
  return static_cast<std::size_t>(count) * (dtype == DType::f32 ? 4 : 2);
}

OwnCopy own_part_to(const void* part, void* all, int rank, std::int64_t count, DType dtype) {
  const std::size_t bytes = value_bytes(count, dtype);
  return copy_of(part, static_cast<char*>(all) + static_cast<std::size_t>(rank) * bytes, bytes);
}

OwnCopy own_part_from(const void* all, void* part, int rank, std::int64_t count, DType dtype) {
  const std::size_t bytes = value_bytes(count, dtype);
  return copy_of(static_cast<const char*>(all) + static_cast<std::size_t>(rank) * bytes, part, bytes);
}

OwnCopy own_part_within(const void* from, void* to, int rank, std::int64_t count, DType dtype) {
  const std::size_t at = static_cast<std::size_t>(rank) * value_bytes(count, dtype);
  return own_part_to(static_cast<const char*>(from) + at, to, rank, count, dtype);
}

void OwnPart::all_reduce(void*, std::int64_t count, DType dtype, cudaStream_t) { value_bytes(count, dtype); }

void OwnPart::all_gather(const void* part, void* all, std::int64_t count, DType dtype, cudaStream_t stream) {
  carry_out(own_part_to(part, all, rank_, count, dtype), stream);
}

void OwnPart::reduce_scatter(const void* values, void* part, std::int64_t count, DType dtype, cudaStream_t stream) {
  carry_out(own_part_from(values, part, rank_, count, dtype), stream);
}

void OwnPart::all_to_all(const void* from, void* to, std::int64_t count, DType dtype, cudaStream_t stream) {
  carry_out(own_part_within(from, to, rank_, count, dtype), stream);
}

std::unique_ptr<DeviceComm> open_null(const CommRequest&, Bootstrap& group) {
  return std::make_unique<OwnPart>(group.rank(), "null: nothing is exchanged, results are not those of the model");
}

}  // namespace specstep::comm
