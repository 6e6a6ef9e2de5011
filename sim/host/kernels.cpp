#include "sim/host/kernels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace specstep::host {

namespace {

constexpr Index lanes = 16;
using Lanes = Eigen::Array<float, lanes, 1>;

Lanes load(const float* at) { return Eigen::Map<const Lanes>(at); }

/// Dot products of one weight row with R rows: sixteen running sums each, then the rest one by one.
template <std::size_t R>
std::array<float, R> dots(const float* weight, const std::array<const float*, R>& rows, Index n) {
  std::array<Lanes, R> sums;
  for (Lanes& s : sums) s.setZero();
  Index k = 0;
  for (; k + lanes <= n; k += lanes) {
    const Lanes w = load(weight + k);
    for (std::size_t r = 0; r < R; ++r) sums[r] += w * load(rows[r] + k);
  }
  std::array<float, R> out{};
  for (std::size_t r = 0; r < R; ++r) {
    out[r] = sums[r].sum();
    for (Index i = k; i < n; ++i) out[r] += weight[i] * rows[r][i];
  }
  return out;
}

}  // namespace

float dot(const float* a, const float* b, Index n) { return dots<1>(a, {b}, n)[0]; }

void product(const ConstView& in, const Matrix& weight, View out) {
  const Index k = weight.cols();
  for (Index n = 0; n < weight.rows(); ++n) {
    const float* row = weight.data() + n * k;
    Index m = 0;
    for (; m + 2 <= in.rows(); m += 2) {
      const std::array<float, 2> both = dots<2>(row, {&in.coeffRef(m, 0), &in.coeffRef(m + 1, 0)}, k);
      out(m, n) = both[0];
      out(m + 1, n) = both[1];
    }
    if (m < in.rows()) out(m, n) = dot(row, &in.coeffRef(m, 0), k);
  }
}

void rms_norm(const ConstView& in, const Matrix& gain, View out) {
  constexpr float epsilon = 1e-6F;  // of most published stacks
  for (Index r = 0; r < in.rows(); ++r) {
    const float* row = &in.coeffRef(r, 0);
    const float scale = 1 / std::sqrt(dot(row, row, in.cols()) / static_cast<float>(in.cols()) + epsilon);
    for (Index c = 0; c < in.cols(); ++c) out(r, c) = in(r, c) * scale * gain(c, 0);
  }
}

Matrix gated(const Matrix& in) {
  const Index width = in.cols() / 2;
  Matrix out(in.rows(), width);
  for (Index r = 0; r < in.rows(); ++r)
    for (Index c = 0; c < width; ++c) out(r, c) = in(r, c) / (1 + std::exp(-in(r, c))) * in(r, width + c);
  return out;
}

void rotate(std::span<float> values, std::int64_t position) {
  constexpr double base = 10000;
  const std::size_t half = values.size() / 2;
  for (std::size_t i = 0; i < half; ++i) {
    const double angle =
        static_cast<double>(position) * std::pow(base, -static_cast<double>(i) / static_cast<double>(half));
    const auto c = static_cast<float>(std::cos(angle));
    const auto s = static_cast<float>(std::sin(angle));
    const float x = values[i];
    const float y = values[i + half];
    values[i] = x * c - y * s;
    values[i + half] = x * s + y * c;
  }
}

void softmax(std::span<float> scores) {
  const float most = *std::max_element(scores.begin(), scores.end());
  float sum = 0;
  for (float& s : scores) sum += s = std::exp(s - most);
  for (float& s : scores) s /= sum;
}

std::vector<std::int64_t> largest(std::span<const float> scores, std::size_t k) {
  std::vector<std::int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  k = std::min(k, order.size());
  const auto before = [&](std::int64_t a, std::int64_t b) {
    const float x = scores[static_cast<std::size_t>(a)];
    const float y = scores[static_cast<std::size_t>(b)];
    return x != y ? x > y : a < b;
  };
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(), before);
  order.resize(k);
  std::sort(order.begin(), order.end());
  return order;
}

std::int32_t argmax(std::span<const float> scores) {
  return static_cast<std::int32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

void attend(const HeadQuery& head, const Matrix& cache, std::span<const std::int64_t> slots, std::span<float> out) {
  std::vector<float> scores(slots.size());
  const auto width = static_cast<Index>(head.query.size());
  for (std::size_t i = 0; i < slots.size(); ++i)
    scores[i] = head.scale * dot(head.query.data(), &cache(slots[i], head.key_col), width);
  softmax(scores);
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const float* values = &cache(slots[i], head.value_col);
    for (std::size_t c = 0; c < out.size(); ++c) out[c] += scores[i] * values[c];
  }
}

}  // namespace specstep::host
