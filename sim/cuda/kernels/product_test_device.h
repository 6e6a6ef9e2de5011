// For tests of device code: memory that frees itself, and matrices made by the generator.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "comm/cuda/check.h"
#include "sim/cuda/kernels/stored.h"
#include "sim/host/formats.h"
#include "sim/host/philox.h"

namespace specstep::cuda {

inline bool has_gpu() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

/// Device memory for `count` values.
template <class T>
class Device {
 public:
  explicit Device(std::size_t count) : count_(count) {
    void* memory = nullptr;
    comm::check(cudaMalloc(&memory, std::max<std::size_t>(count, 1) * sizeof(T)), "test memory");
    data_ = static_cast<T*>(memory);
    comm::check(cudaMemset(data_, 0xA5, count * sizeof(T)), "test memory");
  }
  explicit Device(const std::vector<T>& from) : Device(from.size()) { upload(from); }
  ~Device() { cudaFree(data_); }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  void upload(const std::vector<T>& from) {
    comm::check(cudaMemcpy(data_, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice), "upload");
  }
  std::vector<T> download() const {
    std::vector<T> out(count_);
    comm::check(cudaMemcpy(out.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "download");
    return out;
  }
  T* get() const { return data_; }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

inline std::uint16_t bf16_bits(float v) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(host::rounded(v, DType::bf16)) >> 16);
}
inline float bf16_value(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

/// Which part of a whole set of matrices a test makes.
struct Part {
  WeightFormat format;
  std::int64_t count = 1, rows = 0, cols = 0;
  std::int64_t first_col = 0, whole_cols = 0;  // 0: all columns
};

/// A stored matrix in device memory, filled by the generator.
class TestMatrix {
 public:
  TestMatrix(const Part& part, Real real)
      : bytes_(stored_bytes(stored_as(part, real), part.count, part.rows, part.cols)),
        values_(static_cast<std::size_t>(bytes_.values)),
        scales_(static_cast<std::size_t>(bytes_.scales)) {
    const std::int64_t whole_cols = part.whole_cols > 0 ? part.whole_cols : part.cols;
    const float bound = std::sqrt(3.0F / static_cast<float>(whole_cols));
    matrix_ = {stored_as(part, real), values_.get(), scales_.get()};
    matrix_.whole_scale = whole_scale(matrix_.format, bound);
    matrix_.count = part.count, matrix_.rows = part.rows, matrix_.cols = part.cols;
    if (matrix_.format.group > 0) matrix_.phase = part.first_col % matrix_.format.group;
    const Device<std::int64_t> matrices(counted(part.count)), rows(counted(part.rows));
    Fill from{{1, 2}, 3, bound, false, matrices.get(), rows.get(), part.first_col, whole_cols};
    fill(matrix_, from, part.format, nullptr);
    comm::check(cudaDeviceSynchronize(), "fill");
  }
  const StoredMatrix& get() const { return matrix_; }
  /// All values, as kernels see them.
  std::vector<float> unpacked() const {
    const Device<float> out(static_cast<std::size_t>(matrix_.count * matrix_.rows * matrix_.cols));
    unpack(matrix_, out.get(), Real::f32, nullptr);
    return out.download();
  }

 private:
  static WeightFormat stored_as(const Part& part, Real real) {
    return real == Real::f32 ? WeightFormat{.dtype = DType::f32} : part.format;
  }
  static std::vector<std::int64_t> counted(std::int64_t count) {
    std::vector<std::int64_t> out(static_cast<std::size_t>(count));
    std::iota(out.begin(), out.end(), 0);
    return out;
  }

  StoredBytes bytes_;
  Device<std::uint8_t> values_, scales_;
  StoredMatrix matrix_;
};

/// `count` numbers in [-1, 1), each another for each name.
inline std::vector<float> numbers(std::int64_t count, std::uint32_t name) {
  std::vector<float> out;
  for (std::uint32_t i = 0; i < static_cast<std::uint32_t>(count); ++i)
    out.push_back(host::signed_unit(host::philox({i, name, 0, 0}, {5, 6})[0]));
  return out;
}

}  // namespace specstep::cuda
