// What tests of device collectives share: integers as values of a type, device arrays, ranks as threads.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/cuda/check.h"
#include "comm/cuda/device_comm.h"
#include "comm/cuda/handles.h"
#include "comm/cuda/let_share.h"
#include "comm/cuda/wait.h"
#include "model/base/error.h"
#include "model/base/formatted.h"

namespace specstep::comm {

/// The first question to CUDA: ranks of a test may share a device.
inline int visible_gpus() {
  let_ranks_share();
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) return 0;
  return count;
}

using Integers = std::vector<int>;

inline std::size_t width(DType dtype) { return dtype == DType::f32 ? 4 : 2; }

/// Bits of an integer: of at most 256 exact in f32, in f16, whose exponents have a bias of 15, and in bf16, whose bits
/// are the upper half of f32's.
inline std::uint32_t bits_of(int value, DType dtype) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (dtype == DType::f32) return bits;
  if (dtype == DType::bf16) return bits >> 16;
  if (value == 0) return 0;
  return ((bits >> 16) & 0x8000U) | ((((bits >> 23) & 0xFFU) - 112U) << 10) | ((bits >> 13) & 0x3FFU);
}
inline float value_of(std::uint32_t bits, DType dtype) {
  if (dtype == DType::f32) return std::bit_cast<float>(bits);
  if (dtype == DType::bf16) return std::bit_cast<float>(bits << 16);
  if ((bits & 0x7FFFU) == 0) return 0;
  return std::bit_cast<float>(((bits & 0x8000U) << 16) | ((((bits >> 10) & 0x1FU) + 112U) << 23) |
                              ((bits & 0x3FFU) << 13));
}

inline std::string encoded(const Integers& values, DType dtype) {
  std::string out;
  for (const int v : values) {
    const std::uint32_t bits = bits_of(v, dtype);
    out.append(reinterpret_cast<const char*>(&bits), width(dtype));
  }
  return out;
}

inline std::vector<float> decoded(const std::string& bytes, DType dtype) {
  std::vector<float> out;
  for (std::size_t at = 0; at < bytes.size(); at += width(dtype)) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, bytes.data() + at, width(dtype));
    out.push_back(value_of(bits, dtype));
  }
  return out;
}

/// Where two arrays of values differ first, or nothing.
inline std::string difference(const std::string& got, const Integers& expected, DType dtype, const std::string& what) {
  const std::vector<float> values = decoded(got, dtype);
  if (values.size() != expected.size())
    return formatted("{}: {} values instead of {}\n", what, values.size(), expected.size());
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = values.size(); i-- > 0;)
    if (values[i] != static_cast<float>(expected[i])) {
      ++wrong;
      first = i;
    }
  if (wrong == 0) return "";
  return formatted("{} of {} values of {}: {} are wrong, the first at {}: got {}, expected {}\n", what, values.size(),
                   name_of(dtype), wrong, first, values[first], expected[first]);
}

/// Bytes on the current device.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t size) : size_(size) {
    void* memory = nullptr;
    check(cudaMalloc(&memory, size), "allocating a test's array");
    memory_.reset(memory);
  }
  DeviceBytes(const Integers& values, DType dtype) : DeviceBytes(values.size() * width(dtype)) {
    const std::string bytes = encoded(values, dtype);
    check(cudaMemcpy(memory_.get(), bytes.data(), size_, cudaMemcpyHostToDevice), "filling a test's array");
    // A copy from pageable memory may go on after the call, and streams that do not wait for the default one use it.
    check(cudaStreamSynchronize(nullptr), "filling a test's array");
  }
  char* data() const { return static_cast<char*>(memory_.get()); }
  std::size_t size() const { return size_; }
  std::string read() const {
    std::string out(size_, '\0');
    check(cudaMemcpy(out.data(), memory_.get(), size_, cudaMemcpyDeviceToHost), "reading a test's array");
    return out;
  }

 private:
  struct Free {
    void operator()(void* memory) const noexcept { (void)cudaFree(memory); }
  };
  std::size_t size_;
  std::unique_ptr<void, Free> memory_;
};

/// What a rank threw: its kind and its words.
struct Thrown {
  bool unsupported = false;
  std::string text;  // empty: nothing
};

/// Runs work on one thread for each rank; rank r has device r, or device 0 where they share one.
inline std::vector<Thrown> on_ranks(int ranks, double limit_seconds, bool share_device,
                                    const std::function<void(Bootstrap&)>& work) {
  auto ends = thread_bootstrap(ranks, limit_seconds);
  std::vector<Thrown> thrown(ends.size());
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < ends.size(); ++r)
    threads.emplace_back([&, r] {
      try {
        check(cudaSetDevice(share_device ? 0 : static_cast<int>(r)), "choosing a device");
        work(*ends[r]);
      } catch (const Unsupported& e) {
        thrown[r] = {true, e.what()};
        ends[r]->fail(e.what());
      } catch (const std::exception& e) {
        thrown[r] = {false, e.what()};
        ends[r]->fail(e.what());
      }
    });
  threads.clear();
  return thrown;
}

}  // namespace specstep::comm
