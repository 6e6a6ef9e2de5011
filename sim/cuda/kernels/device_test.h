// What tests of kernels share: device memory with numbers, outputs that start as poison, comparisons that say what is
// wrong.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "comm/cuda/check.h"
#include "sim/cuda/kernels/stored.h"
#include "sim/host/formats.h"
#include "sim/host/philox.h"

namespace specstep::cuda {

class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    int devices = 0;
    if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) GTEST_SKIP() << "no CUDA device";
  }
};

/// Memory of the device; without values it is filled with poison, which no right result holds.
template <class T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t count) : count_(count) {
    void* data = nullptr;
    comm::check(cudaMalloc(&data, bytes()), "memory of a test");
    data_ = static_cast<T*>(data);
    comm::check(cudaMemset(data_, poison_byte, bytes()), "poison of a test");
  }
  explicit OnDevice(const std::vector<T>& values) : OnDevice(values.size()) {
    comm::check(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "input of a test");
  }
  OnDevice(OnDevice&& other) noexcept : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}
  OnDevice& operator=(OnDevice&&) = delete;
  ~OnDevice() { cudaFree(data_); }

  T* get() const { return data_; }
  std::vector<T> back() const {
    std::vector<T> out(count_);
    comm::check(cudaDeviceSynchronize(), "kernel under test");
    comm::check(cudaMemcpy(out.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "output of a test");
    return out;
  }

  static constexpr int poison_byte = 0x7B;

 private:
  std::size_t bytes() const { return std::max<std::size_t>(count_, 1) * sizeof(T); }
  T* data_ = nullptr;
  std::size_t count_ = 0;
};

/// Values of the type of activations; floats on this side.
class Values {
 public:
  Values(Real real, std::size_t count) : real_(real), memory_(count * static_cast<std::size_t>(bytes_of(real))) {}
  Values(Real real, const std::vector<float>& values) : real_(real), memory_(packed(real, values)) {}

  void* get() const { return memory_.get(); }
  void* at(std::int64_t value) const { return memory_.get() + value * bytes_of(real_); }
  std::vector<float> back() const {
    const std::vector<std::uint8_t> bytes = memory_.back();
    std::vector<float> out(bytes.size() / static_cast<std::size_t>(bytes_of(real_)));
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] =
          std::bit_cast<float>(real_ == Real::f32 ? bits<std::uint32_t>(bytes, i)
                                                  : static_cast<std::uint32_t>(bits<std::uint16_t>(bytes, i)) << 16);
    return out;
  }
  /// What an element is that no kernel wrote.
  float poison() const { return std::bit_cast<float>(real_ == Real::f32 ? 0x7B7B7B7BU : 0x7B7B0000U); }

 private:
  template <class B>
  static B bits(const std::vector<std::uint8_t>& bytes, std::size_t i) {
    B out;
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(i * sizeof(B)), sizeof(B),
                reinterpret_cast<std::uint8_t*>(&out));
    return out;
  }
  static std::vector<std::uint8_t> packed(Real real, const std::vector<float>& values) {
    const auto each = static_cast<std::size_t>(bytes_of(real));
    std::vector<std::uint8_t> out(values.size() * each);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto all = std::bit_cast<std::uint32_t>(values[i]);
      for (std::size_t b = 0; b < each; ++b) out[i * each + b] = static_cast<std::uint8_t>(all >> 8 * (4 - each + b));
    }
    return out;
  }
  Real real_;
  OnDevice<std::uint8_t> memory_;
};

inline const char* name_of(Real real) { return real == Real::f32 ? "f32" : "bf16"; }

/// Numbers in [-bound, bound) that the type of activations holds exactly.
inline std::vector<float> numbers(Real real, std::int64_t count, std::uint32_t name, float bound = 1) {
  std::vector<float> out;
  for (std::int64_t i = 0; i < count; ++i) {
    const float v = bound * host::signed_unit(host::philox({static_cast<std::uint32_t>(i), name, 0, 0}, {1, 2})[0]);
    out.push_back(real == Real::f32 ? v : host::rounded(v, DType::bf16));
  }
  return out;
}

/// Value by value the same.
template <class T>
void expect_same(const std::string& what, const std::vector<T>& got, const std::vector<T>& expected) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  std::size_t wrong = 0, first = 0;
  for (std::size_t i = got.size(); i-- > 0;)
    if (!(got[i] == expected[i])) ++wrong, first = i;
  EXPECT_EQ(wrong, 0U) << what << ": " << wrong << " of " << got.size() << " differ, the first at " << first << ": got "
                       << got[first] << ", expected " << expected[first];
}

/// f32: normalised mean square error up to `limit`. bf16: each value within one rounding (and the fp32 error before it)
/// of the exact result.
inline void expect_close(const std::string& what, Real real, const std::vector<float>& got,
                         const std::vector<double>& expected, double limit = 1e-12) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double error = 0, norm = 0, worst = -1;
  std::size_t at = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double off = std::fabs(static_cast<double>(got[i]) - expected[i]);
    error += off * off;
    norm += expected[i] * expected[i];
    const double ulp = std::ldexp(1.0, std::ilogb(std::max(std::fabs(expected[i]), 1e-30)) - 7);
    const double measure = real == Real::f32 ? off : (off - 2e-6) / ulp;
    if (measure > worst || std::isnan(off)) worst = std::isnan(off) ? INFINITY : measure, at = i;
  }
  if (got.empty()) return;
  const std::string place = what + ": worst at " + std::to_string(at) + ": got " + std::to_string(got[at]) +
                            ", expected " + std::to_string(expected[at]);
  if (real == Real::f32)
    EXPECT_LE(error, limit * norm) << place;
  else
    EXPECT_LE(worst, 0.51) << place << " (in ulp of bf16)";
}

}  // namespace specstep::cuda
