// For the tests of attention: device memory, a pass over sequences with shuffled pages, and a cache known to the host.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "comm/cuda/check.h"
#include "sim/cuda/kernels/attention.h"
#include "sim/host/cache.h"
#include "sim/host/formats.h"

namespace specstep::cuda {

/// Device memory that begins as 0xFF bytes: NaN in every floating type, -1 in integers.
template <typename T>
class OnDevice {
 public:
  explicit OnDevice(std::size_t count) : count_(count) {
    comm::check(cudaMalloc(&data_, std::max<std::size_t>(count, 1) * sizeof(T)), "test memory");
    comm::check(cudaMemset(data_, 0xFF, count * sizeof(T)), "poison");
  }
  explicit OnDevice(const std::vector<T>& from) : OnDevice(from.size()) {
    comm::check(cudaMemcpy(data_, from.data(), count_ * sizeof(T), cudaMemcpyHostToDevice), "upload");
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaFree(data_); }
  T* get() const { return static_cast<T*>(data_); }
  std::vector<T> read() const {
    std::vector<T> out(count_);
    comm::check(cudaDeviceSynchronize(), "the kernels under test");
    comm::check(cudaMemcpy(out.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost), "download");
    return out;
  }

 private:
  void* data_ = nullptr;
  std::size_t count_;
};

using Bytes = std::vector<std::uint8_t>;

inline std::size_t size_of(DType type) { return static_cast<std::size_t>(bytes_of(type)); }
inline DType dtype_of(Real real) { return real == Real::f32 ? DType::f32 : DType::bf16; }

/// Value of an e4m3 code (OCP FP8: bias 7, no infinities, 0x7F is NaN).
inline float e4m3_value(std::uint8_t code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::nanf("");
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                   : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return code & 128 ? -size : size;
}

/// A number that its type holds exactly, to and from storage.
inline void put(Bytes& to, std::size_t at, float value, DType type) {
  if (type == DType::fp8) {
    std::uint8_t code = 0;
    while (e4m3_value(code) != std::fabs(value)) ++code;
    to[at] = static_cast<std::uint8_t>(code | (std::signbit(value) ? 128 : 0));
  } else if (type == DType::bf16) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, 4);
    const auto high = static_cast<std::uint16_t>(bits >> 16);
    std::memcpy(&to[2 * at], &high, 2);
  } else {
    std::memcpy(&to[4 * at], &value, 4);
  }
}
inline float get(const Bytes& from, std::size_t at, DType type) {
  if (type == DType::fp8) return e4m3_value(from[at]);
  std::uint32_t bits = 0;
  if (type == DType::bf16) {
    std::uint16_t high = 0;
    std::memcpy(&high, &from[2 * at], 2);
    bits = static_cast<std::uint32_t>(high) << 16;
  } else {
    std::memcpy(&bits, &from[4 * at], 4);
  }
  float out = 0;
  std::memcpy(&out, &bits, 4);
  return out;
}

inline Bytes packed(const host::Matrix& m, DType type) {
  Bytes out(static_cast<std::size_t>(m.size()) * size_of(type));
  for (host::Index i = 0; i < m.size(); ++i) put(out, static_cast<std::size_t>(i), m.data()[i], type);
  return out;
}
inline host::Matrix unpacked(const Bytes& from, host::Index rows, host::Index cols, DType type) {
  host::Matrix out(rows, cols);
  for (host::Index i = 0; i < out.size(); ++i) out.data()[i] = get(from, static_cast<std::size_t>(i), type);
  return out;
}

/// Numbers in [-1, 1) that `type` holds.
inline host::Matrix random_matrix(host::Index rows, host::Index cols, DType type, std::mt19937& random) {
  host::Matrix out(rows, cols);
  for (host::Index i = 0; i < out.size(); ++i)
    out.data()[i] = host::rounded(static_cast<float>(random() >> 8) / (1 << 23) - 1, type);
  return out;
}

/// Squared error over squared expectation; NaN where any value is NaN. Says where it is worst.
inline testing::AssertionResult close(const host::Matrix& got, const host::Matrix& expected, double limit) {
  const double error = (got - expected).cast<double>().squaredNorm() / (expected.cast<double>().squaredNorm() + 1e-30);
  if (error <= limit) return testing::AssertionSuccess();
  host::Index row = 0, col = 0, wrong = 0;
  const host::Matrix apart = (got - expected).cwiseAbs().unaryExpr([](float v) { return std::isnan(v) ? 1e30F : v; });
  apart.maxCoeff(&row, &col);
  wrong = (apart.array() > 1e-2F).count();
  return testing::AssertionFailure() << "NMSE " << error << " above " << limit << "; [" << got.rows() << ", "
                                     << got.cols() << "], " << wrong << " values off by more than 0.01; worst at row "
                                     << row << ", column " << col << ": got " << got(row, col) << ", expected "
                                     << expected(row, col);
}
inline double limit_of(Real real) { return real == Real::f32 ? 1e-9 : 1e-4; }

/// A pass: `queries` new tokens of each sequence behind its committed ones, as a chain or a random tree.
class Scene {
 public:
  Scene(const std::vector<std::int64_t>& contexts, std::int64_t queries, bool tree, std::uint32_t seed = 1)
      : random(seed), queries_(queries) {
    std::int64_t longest = 0;
    for (const std::int64_t context : contexts) {
      host::Nodes nodes = host::chain_nodes(context, static_cast<std::size_t>(queries));
      for (std::size_t i = 1; tree && i < nodes.parent.size(); ++i)
        nodes.parent[i] = static_cast<int>(random() % (i + 1)) - 1;
      sequences.push_back(nodes);
      longest = std::max(longest, context + queries);
    }
    pages_each = (longest + page_tokens - 1) / page_tokens + 1;
    for (std::int32_t page = 0; page < static_cast<std::int32_t>(contexts.size()) * pages_each + 3; ++page)
      pages.push_back(page);
    std::shuffle(pages.begin(), pages.end(), random);
    fill(tree);
  }

  std::int64_t count() const { return static_cast<std::int64_t>(sequences.size()) * queries_; }
  std::int64_t cache_rows() const { return static_cast<std::int64_t>(pages.size()) * page_tokens; }
  std::int64_t row_of(std::size_t sequence, std::int64_t slot) const {
    const auto at = static_cast<std::int64_t>(sequence) * pages_each + slot / page_tokens;
    return pages[static_cast<std::size_t>(at)] * page_tokens + slot % page_tokens;
  }
  PassMeta meta() const { return meta(0, static_cast<std::int64_t>(sequences.size())); }
  /// Of `number` sequences from `first` on.
  PassMeta meta(std::int64_t first, std::int64_t number) const {
    PassMeta out;
    out.sequences = number;
    out.tokens_each = queries_;
    out.positions = positions_->get() + first * queries_;
    out.slots = slots_->get() + first * queries_;
    out.base = base_->get() + first;
    out.mask = mask_ ? mask_->get() + first * queries_ * words_ : nullptr;
    out.mask_words = words_;
    out.pages = pages_->get() + first * pages_each;
    out.pages_each = pages_each;
    return out;
  }
  /// fn(sequence, node, row of the pass)
  template <typename Fn>
  void each_token(Fn fn) const {
    for (std::size_t s = 0; s < sequences.size(); ++s)
      for (std::size_t n = 0; n < static_cast<std::size_t>(queries_); ++n)
        fn(s, n, static_cast<host::Index>(s * static_cast<std::size_t>(queries_) + n));
  }

  std::mt19937 random;
  std::vector<host::Nodes> sequences;
  std::vector<std::int32_t> pages;
  std::int64_t pages_each = 0;

 private:
  void fill(bool tree) {
    std::vector<std::int32_t> positions, slots, base;
    words_ = (queries_ + 31) / 32;
    std::vector<std::uint32_t> mask(static_cast<std::size_t>(count() * words_));
    for (const host::Nodes& nodes : sequences) base.push_back(static_cast<std::int32_t>(nodes.base));
    each_token([&](std::size_t s, std::size_t n, host::Index row) {
      const host::Nodes& nodes = sequences[s];
      positions.push_back(static_cast<std::int32_t>(nodes.position(n)));
      slots.push_back(static_cast<std::int32_t>(nodes.base + static_cast<std::int64_t>(n)));
      for (int at = static_cast<int>(n); at >= 0; at = nodes.parent[static_cast<std::size_t>(at)])
        mask[static_cast<std::size_t>(row * words_ + at / 32)] |= 1U << (at % 32);
    });
    positions_ = std::make_unique<OnDevice<std::int32_t>>(positions);
    slots_ = std::make_unique<OnDevice<std::int32_t>>(slots);
    base_ = std::make_unique<OnDevice<std::int32_t>>(base);
    pages_ = std::make_unique<OnDevice<std::int32_t>>(pages);
    if (tree) mask_ = std::make_unique<OnDevice<std::uint32_t>>(mask);
  }

  std::int64_t queries_;
  std::int64_t words_ = 0;
  std::unique_ptr<OnDevice<std::int32_t>> positions_, slots_, base_, pages_;
  std::unique_ptr<OnDevice<std::uint32_t>> mask_;
};

/// A paged cache: rows that hold a token have random numbers, all others NaN.
struct TestCache {
  TestCache(Scene& scene, std::int64_t values, DType type) : dtype(type), width(values) {
    Bytes bytes(static_cast<std::size_t>(scene.cache_rows() * values) * size_of(type), 0xFF);
    const auto row_bytes = static_cast<std::size_t>(values) * size_of(type);
    for (std::size_t s = 0; s < scene.sequences.size(); ++s) {
      const host::Nodes& nodes = scene.sequences[s];
      const auto slots = nodes.base + static_cast<std::int64_t>(nodes.parent.size());
      sequences.push_back(random_matrix(slots, values, type, scene.random));
      const Bytes rows = packed(sequences.back(), type);
      for (std::int64_t slot = 0; slot < slots; ++slot)
        std::memcpy(&bytes[static_cast<std::size_t>(scene.row_of(s, slot)) * row_bytes],
                    &rows[static_cast<std::size_t>(slot) * row_bytes], row_bytes);
    }
    device = std::make_unique<OnDevice<std::uint8_t>>(bytes);
  }
  Cache cache() const { return {device->get(), dtype, width}; }

  DType dtype;
  std::int64_t width;
  std::vector<host::Matrix> sequences;
  std::unique_ptr<OnDevice<std::uint8_t>> device;
};

/// Workspace as its owner keeps it: counters zero, the rest anything.
inline std::unique_ptr<OnDevice<std::uint8_t>> make_workspace(std::int64_t bytes) {
  auto out = std::make_unique<OnDevice<std::uint8_t>>(static_cast<std::size_t>(std::max(bytes, counter_bytes)));
  comm::check(cudaMemset(out->get(), 0, static_cast<std::size_t>(counter_bytes)), "counters");
  return out;
}

/// Tests that need a device.
class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) GTEST_SKIP() << "no CUDA device";
  }
};

}  // namespace specstep::cuda
