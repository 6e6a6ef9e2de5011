// Arithmetic of the operations. The result of a row never depends on the other rows of the pass: a dot product is
// summed in an order that only its length decides, so that verifying K + 1 tokens gives, bit by bit, what K + 1 decode
// steps give.
#pragma once

#include <span>

#include "sim/host/cache.h"

namespace specstep::host {

using View = Eigen::Ref<Matrix, 0, Eigen::OuterStride<>>;
using ConstView = Eigen::Ref<const Matrix, 0, Eigen::OuterStride<>>;

float dot(const float* a, const float* b, Index n);

/// out[m, n] = in[m, k] weight[n, k]^T.
void product(const ConstView& in, const Matrix& weight, View out);

/// Each row scaled to root mean square one, times the gain [width, 1].
void rms_norm(const ConstView& in, const Matrix& gain, View out);

/// silu(gate) up of rows [gate | up].
Matrix gated(const Matrix& in);

/// Rotates a vector by its position: pair (i, i + n / 2) by position 10000^(-2 i / n).
void rotate(std::span<float> values, std::int64_t position);

/// Softmax in place.
void softmax(std::span<float> scores);

/// Indices of the k largest, ties to the lower index; ascending.
std::vector<std::int64_t> largest(std::span<const float> scores, std::size_t k);

/// Index of the largest, ties to the lower index.
std::int32_t argmax(std::span<const float> scores);

/// One head of one query: out += softmax(scores) values, over the given rows of the cache. Scores are
/// scale query[0:n] . keys(row, key_col : + n); values are keys(row, value_col : + out.size()).
struct HeadQuery {
  std::span<const float> query;
  float scale = 1;
  Index key_col = 0;
  Index value_col = 0;
};
void attend(const HeadQuery& head, const Matrix& cache, std::span<const std::int64_t> slots, std::span<float> out);

}  // namespace specstep::host
