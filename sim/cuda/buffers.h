// Memory that ends with its scope: of the device, and of the host where a device copies from and to.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "comm/cuda/handles.h"

namespace specstep::cuda {

/// Memory of the current device, zeroed. Throws Error when there is not enough.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  DeviceBuffer(std::int64_t bytes, std::string_view what);
  std::byte* data() const { return memory_.get(); }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(memory_.get());
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<std::byte, comm::Destroy<cudaFree>> memory_;
  std::int64_t bytes_ = 0;
};

/// Page-locked memory of the host, zeroed.
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  PinnedBuffer(std::int64_t bytes, std::string_view what);
  std::byte* data() const { return memory_.get(); }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::unique_ptr<std::byte, comm::Destroy<cudaFreeHost>> memory_;
  std::int64_t bytes_ = 0;
};

/// Places in one allocation, each aligned to 256 bytes: first all are added, then the memory is made.
class Layout {
 public:
  /// Offset of a new place.
  std::int64_t add(std::int64_t bytes);
  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t bytes_ = 0;
};

/// Numbers of the host in memory of the device; returns when they are there.
template <class T>
DeviceBuffer on_device(const std::vector<T>& values, std::string_view what) {
  const auto bytes = static_cast<std::int64_t>(values.size() * sizeof(T));
  DeviceBuffer out(bytes, what);
  comm::check(cudaMemcpy(out.data(), values.data(), static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice), what);
  // From memory that is not page-locked, a copy may return before its last part has arrived.
  comm::check(cudaStreamSynchronize(nullptr), what);
  return out;
}

}  // namespace specstep::cuda
