#include "sim/cuda/buffers.h"

#include <algorithm>
#include <cstring>

namespace specstep::cuda {

namespace {
std::size_t size_of(std::int64_t bytes) { return static_cast<std::size_t>(std::max<std::int64_t>(bytes, 256)); }
}  // namespace

DeviceBuffer::DeviceBuffer(std::int64_t bytes, std::string_view what) : bytes_(bytes) {
  void* memory = nullptr;
  comm::check(cudaMalloc(&memory, size_of(bytes)), what);
  memory_.reset(static_cast<std::byte*>(memory));
  comm::check(cudaMemset(memory, 0, size_of(bytes)), what);
  // The runtime's own stream does not order what others do: whoever gets this memory may use it at once.
  comm::check(cudaStreamSynchronize(nullptr), what);
}

PinnedBuffer::PinnedBuffer(std::int64_t bytes, std::string_view what) : bytes_(bytes) {
  void* memory = nullptr;
  comm::check(cudaMallocHost(&memory, size_of(bytes)), what);
  std::memset(memory, 0, size_of(bytes));
  memory_.reset(static_cast<std::byte*>(memory));
}

std::int64_t Layout::add(std::int64_t bytes) {
  const std::int64_t at = bytes_;
  bytes_ += (bytes + 255) / 256 * 256;
  return at;
}

}  // namespace specstep::cuda
