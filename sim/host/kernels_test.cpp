// Kernels against plain loops in double.
#include "sim/host/kernels.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/host/philox.h"

namespace specstep::host {
namespace {

Matrix numbers(Index rows, Index cols, std::uint32_t name) {
  Matrix m(rows, cols);
  for (Index r = 0; r < rows; ++r)
    for (Index c = 0; c < cols; ++c)
      m(r, c) = signed_unit(philox({static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(c), name, 0}, {1, 2})[0]);
  return m;
}

TEST(Kernels, ProductAndItsRowsDoNotDependOnEachOther) {
  for (const Index k : {1, 15, 16, 17, 64, 100}) {
    const Matrix in = numbers(5, k, 1);
    const Matrix weight = numbers(7, k, 2);
    Matrix out(5, 7);
    product(in, weight, out);
    for (Index m = 0; m < 5; ++m) {
      Matrix alone(1, 7);
      product(in.middleRows(m, 1), weight, alone);
      for (Index n = 0; n < 7; ++n) {
        double sum = 0;
        for (Index i = 0; i < k; ++i) sum += static_cast<double>(in(m, i)) * static_cast<double>(weight(n, i));
        EXPECT_NEAR(out(m, n), sum, 1e-5);
        EXPECT_EQ(out(m, n), alone(0, n));  // bit by bit
      }
    }
  }
}

TEST(Kernels, RotationKeepsLengthAndDependsOnDistanceOnly) {
  const Matrix q = numbers(1, 8, 3);
  const Matrix k = numbers(1, 8, 4);
  const auto turned = [](const Matrix& m, std::int64_t position) {
    std::vector<float> v(m.data(), m.data() + m.size());
    rotate(v, position);
    return v;
  };
  const auto score = [&](std::int64_t a, std::int64_t b) {
    const auto x = turned(q, a);
    const auto y = turned(k, b);
    return dot(x.data(), y.data(), 8);
  };
  EXPECT_NEAR(score(5, 2), score(105, 102), 1e-4);
  EXPECT_GT(std::fabs(score(5, 2) - score(5, 4)), 1e-3);
  const auto v = turned(q, 77);
  EXPECT_NEAR(dot(v.data(), v.data(), 8), dot(q.data(), q.data(), 8), 1e-5);
}

TEST(Kernels, AttentionIsTheWeightedMeanOfWhatIsSeen) {
  const Matrix cache = numbers(6, 8, 5);  // keys in columns 0..3, values in 4..7
  const Matrix query = numbers(1, 4, 6);
  const std::vector<std::int64_t> slots{1, 2, 5};
  std::vector<float> out(4, 0.0F);
  attend({{query.data(), 4}, 0.5F, 0, 4}, cache, slots, out);
  double sum = 0;
  std::vector<double> expected(4, 0.0);
  for (const auto s : slots) {
    double score = 0;
    for (Index c = 0; c < 4; ++c) score += static_cast<double>(query(0, c)) * static_cast<double>(cache(s, c));
    const double weight = std::exp(score * 0.5);
    sum += weight;
    for (Index c = 0; c < 4; ++c)
      expected[static_cast<std::size_t>(c)] += weight * static_cast<double>(cache(s, 4 + c));
  }
  for (std::size_t c = 0; c < 4; ++c) EXPECT_NEAR(out[c], expected[c] / sum, 1e-6);
}

TEST(Kernels, LargestTakesTheLowerIndexOfEquals) {
  const std::vector<float> scores{1, 3, 3, 2, 3};
  EXPECT_EQ(largest(scores, 2), (std::vector<std::int64_t>{1, 2}));
  EXPECT_EQ(largest(scores, 9).size(), 5U);
  EXPECT_EQ(argmax(scores), 1);
}

TEST(Kernels, NodesOfATreeSeeTheirAncestorsOnly) {
  const Nodes tree{3, {-1, 0, 0, 1}, 0};  // root, two children, a child of the first
  EXPECT_EQ(tree.visible(3), (std::vector<std::int64_t>{0, 1, 2, 3, 4, 6}));
  EXPECT_EQ(tree.visible(2), (std::vector<std::int64_t>{0, 1, 2, 3, 5}));
  EXPECT_EQ(tree.position(3), 5);
  EXPECT_EQ(tree.position(2), 4);
}

}  // namespace
}  // namespace specstep::host
