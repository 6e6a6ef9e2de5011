// What stands around softmax attention: rotation and appending, the sparse index, the linear recurrence.
#include <numeric>

#include "sim/cuda/kernels/test_scene.h"
#include "sim/host/kernels.h"

namespace specstep::cuda {
namespace {

using host::Index;
using host::Matrix;

std::span<float> part_of(Matrix& m, Index row, Index col, Index count) {
  return {&m(row, col), static_cast<std::size_t>(count)};
}

void round_all(Matrix& m, DType type) {
  for (Index i = 0; i < m.size(); ++i) m.data()[i] = host::rounded(m.data()[i], type);
}

class Ropes : public OnGpu {
 protected:
  /// Every row of the cache: the appended ones near the expected, all others as they were, bit by bit.
  static void expect_appended(const Scene& scene, const TestCache& cache, const Bytes& before, const Matrix& rows,
                              Real real) {
    const Bytes after = cache.device->read();
    const auto row_bytes = static_cast<std::size_t>(cache.width) * size_of(cache.dtype);
    std::vector<Index> written(static_cast<std::size_t>(scene.cache_rows()), -1);
    scene.each_token([&](std::size_t s, std::size_t n, Index row) {
      const std::int64_t slot = scene.sequences[s].base + static_cast<std::int64_t>(n);
      written[static_cast<std::size_t>(scene.row_of(s, slot))] = row;
    });
    const Matrix got = unpacked(after, scene.cache_rows(), cache.width, cache.dtype);
    Matrix appended = Matrix::Constant(rows.rows(), rows.cols(), std::nanf(""));
    for (std::size_t i = 0; i < written.size(); ++i) {
      if (written[i] >= 0)
        appended.row(written[i]) = got.row(static_cast<Index>(i));
      else
        EXPECT_EQ(std::memcmp(&after[i * row_bytes], &before[i * row_bytes], row_bytes), 0) << "cache row " << i;
    }
    // A value at the edge of two roundings may fall to either: one step of e4m3 is an eighth of the value.
    EXPECT_TRUE(close(appended, rows, cache.dtype == DType::fp8 ? 1e-4 : limit_of(real)));
  }

  static std::unique_ptr<OnDevice<float2>> rotations(std::int64_t positions, std::int64_t width) {
    auto out = std::make_unique<OnDevice<float2>>(static_cast<std::size_t>(positions * width / 2));
    fill_rotations(out->get(), positions, width, nullptr);
    return out;
  }
};

TEST_F(Ropes, TableIsThatOfTheHost) {
  for (const std::int64_t width : {8, 64, 128}) {
    constexpr std::int64_t positions = 3000;
    const std::vector<float2> table = rotations(positions, width)->read();
    for (const std::int64_t position : {std::int64_t{0}, std::int64_t{1}, std::int64_t{77}, positions - 1})
      for (std::int64_t i = 0; i < width / 2; ++i) {
        std::vector<float> unit(static_cast<std::size_t>(width));
        unit[static_cast<std::size_t>(i)] = 1;
        host::rotate(unit, position);
        const float2 r = table[static_cast<std::size_t>(position * width / 2 + i)];
        EXPECT_NEAR(r.x, unit[static_cast<std::size_t>(i)], 2e-7) << width << " " << position << " " << i;
        EXPECT_NEAR(r.y, unit[static_cast<std::size_t>(i + width / 2)], 2e-7) << width << " " << position << " " << i;
      }
  }
}

TEST_F(Ropes, GqaRotatesAndAppends) {
  for (const Real real : {Real::f32, Real::bf16})
    for (const bool fp8 : {false, true})
      for (const Index dim : {6, 32, 64, 128}) {
        SCOPED_TRACE(testing::Message() << (real == Real::f32 ? "f32" : "bf16") << (fp8 ? " fp8" : "") << " dim "
                                        << dim);
        const Index heads = 5, kv = 2;
        const DType type = dtype_of(real);
        Scene scene({0, 63, 64, 1000}, 4, true);
        const TestCache cache(scene, 2 * kv * dim, fp8 ? DType::fp8 : type);
        Matrix qkv = random_matrix(scene.count(), (heads + 2 * kv) * dim, type, scene.random);
        const OnDevice<std::uint8_t> device(packed(qkv, type));
        const auto table = rotations(1100, dim);
        const Bytes before = cache.device->read();
        rope_append(RopeGqa{device.get(), heads, kv, dim}, cache.cache(), scene.meta(), table->get(), real, nullptr);

        scene.each_token([&](std::size_t s, std::size_t n, Index row) {
          for (Index h = 0; h < heads + kv; ++h)
            host::rotate(part_of(qkv, row, h * dim, dim), scene.sequences[s].position(n));
        });
        round_all(qkv, type);
        EXPECT_TRUE(close(unpacked(device.read(), qkv.rows(), qkv.cols(), type), qkv, limit_of(real)));
        Matrix rows = qkv.rightCols(2 * kv * dim);
        round_all(rows, cache.dtype);
        expect_appended(scene, cache, before, rows, real);
      }
}

TEST_F(Ropes, MlaRotatesAndAppends) {
  struct Sizes {
    Index heads, nope, rope, q_rank, kv_rank;
  };
  for (const Real real : {Real::f32, Real::bf16})
    for (const bool fp8 : {false, true})
      for (const Sizes z : {Sizes{8, 128, 64, 1536, 512}, Sizes{3, 10, 6, 0, 18}}) {
        SCOPED_TRACE(testing::Message() << (real == Real::f32 ? "f32" : "bf16") << (fp8 ? " fp8" : "") << " rank "
                                        << z.kv_rank);
        const DType type = dtype_of(real);
        Scene scene({0, 63, 64, 1000}, 3, false);
        const TestCache cache(scene, z.kv_rank + z.rope, fp8 ? DType::fp8 : type);
        Matrix query = random_matrix(scene.count(), z.heads * (z.nope + z.rope), type, scene.random);
        Matrix latent = random_matrix(scene.count(), z.q_rank + z.kv_rank + z.rope, type, scene.random);
        const OnDevice<std::uint8_t> device_query(packed(query, type)), device_latent(packed(latent, type));
        const auto table = rotations(1100, z.rope);
        const Bytes before = cache.device->read();
        rope_append(RopeMla{device_query.get(), device_latent.get(), z.heads, z.nope, z.rope, z.q_rank, z.kv_rank},
                    cache.cache(), scene.meta(), table->get(), real, nullptr);

        scene.each_token([&](std::size_t s, std::size_t n, Index row) {
          const std::int64_t position = scene.sequences[s].position(n);
          for (Index h = 0; h < z.heads; ++h)
            host::rotate(part_of(query, row, h * (z.nope + z.rope) + z.nope, z.rope), position);
          host::rotate(part_of(latent, row, z.q_rank + z.kv_rank, z.rope), position);
        });
        round_all(query, type);
        round_all(latent, type);
        EXPECT_TRUE(close(unpacked(device_query.read(), query.rows(), query.cols(), type), query, limit_of(real)));
        EXPECT_TRUE(close(unpacked(device_latent.read(), latent.rows(), latent.cols(), type), latent, limit_of(real)));
        Matrix rows = latent.rightCols(z.kv_rank + z.rope);
        round_all(rows, cache.dtype);
        expect_appended(scene, cache, before, rows, real);
      }
}

class Indexes : public OnGpu {};

/// Small whole numbers: every score is exact in any order of the sum, and many are equal.
Matrix whole_numbers(Index rows, Index cols, std::mt19937& random) {
  Matrix out(rows, cols);
  for (Index i = 0; i < out.size(); ++i) out.data()[i] = static_cast<float>(random() % 5) - 2;
  return out;
}

struct IndexCase {
  Real real;
  DType cached;
  bool tree, share;
  Index heads, dim, top_k;
};

void expect_best(const IndexCase& c) {
  SCOPED_TRACE(testing::Message() << (c.real == Real::f32 ? "f32" : "bf16") << (c.tree ? " tree" : " chain")
                                  << " heads " << c.heads << " dim " << c.dim << " top " << c.top_k << " cached bytes "
                                  << size_of(c.cached));
  const DType type = dtype_of(c.real);
  constexpr std::int64_t queries = 4;
  Scene scene({0, 1, 63, 1000, 5000}, queries, c.tree);
  TestCache cache(scene, c.dim, c.cached);
  for (std::size_t s = 0; s < scene.sequences.size(); ++s) {  // whole numbers in the cache as well
    Matrix& rows = cache.sequences[s];
    rows = whole_numbers(rows.rows(), rows.cols(), scene.random);
    const Bytes bytes = packed(rows, c.cached);
    const std::size_t each = static_cast<std::size_t>(c.dim) * size_of(c.cached);
    for (Index slot = 0; slot < scene.sequences[s].base; ++slot)
      comm::check(cudaMemcpy(cache.device->get() + static_cast<std::size_t>(scene.row_of(s, slot)) * each,
                             &bytes[static_cast<std::size_t>(slot) * each], each, cudaMemcpyHostToDevice),
                  "cached keys");
  }
  const Matrix query = whole_numbers(scene.count(), c.heads * c.dim, scene.random);
  const Matrix key = whole_numbers(scene.count(), c.dim + c.heads, scene.random);
  const OnDevice<std::uint8_t> device_query(packed(query, type)), device_key(packed(key, type));
  const OnDevice<std::int32_t> selected(static_cast<std::size_t>(scene.count() * c.top_k));
  IndexCall call;
  call.op = {
      static_cast<std::int64_t>(scene.sequences.size()), queries, 200, c.heads, c.dim, c.top_k, c.cached, c.share};
  const auto workspace = make_workspace(index_workspace(call.op, scene.pages_each * page_tokens));
  call.query = device_query.get();
  call.key = device_key.get();
  call.selected = selected.get();
  call.workspace = workspace->get();
  sparse_index(call, cache.cache(), scene.meta(), c.real, nullptr);
  const std::vector<std::int32_t> got = selected.read();

  scene.each_token([&](std::size_t s, std::size_t n, Index row) {
    cache.sequences[s].row(scene.sequences[s].base + static_cast<Index>(n)) = key.row(row).leftCols(c.dim);
  });
  scene.each_token([&](std::size_t s, std::size_t n, Index row) {
    const std::vector<std::int64_t> slots = scene.sequences[s].visible(n);
    std::vector<float> scores(slots.size());
    for (std::size_t i = 0; i < slots.size(); ++i)
      for (Index h = 0; h < c.heads; ++h) {
        const float match = query.row(row).segment(h * c.dim, c.dim).dot(cache.sequences[s].row(slots[i]));
        scores[i] += key(row, c.dim + h) * std::max(match, 0.0F);
      }
    const std::vector<std::int64_t> best = host::largest(scores, static_cast<std::size_t>(c.top_k));
    std::vector<std::int32_t> expected(best.begin(), best.end());
    expected.resize(static_cast<std::size_t>(c.top_k), -1);
    const auto at = got.begin() + row * c.top_k;
    EXPECT_EQ(std::vector<std::int32_t>(at, at + c.top_k), expected) << "sequence " << s << ", node " << n;
  });
}

TEST_F(Indexes, ChoosesWhatTheHostChooses) {
  for (const bool tree : {false, true})
    for (const Index top_k : {1, 16, 500, 2048}) {
      expect_best({Real::f32, DType::f32, tree, true, 4, 32, top_k});
      expect_best({Real::bf16, DType::fp8, tree, true, 32, 128, top_k});
    }
  expect_best({Real::bf16, DType::bf16, true, false, 3, 12, 64});
}

class Recurs : public OnGpu {};

struct LinearCase {
  Real real;
  bool tree;
  Index key_heads, value_heads, key_dim, value_dim;
  std::int64_t queries;
};

/// One token of one head in double: the state in place, the output's row part.
void recur(const LinearCase& c, Index head, const Matrix& qkvz, const Matrix& gates, Index row, Eigen::MatrixXd& state,
           Matrix& out) {
  const Index keys = c.key_heads * c.key_dim, values = c.value_heads * c.value_dim;
  const Index key_head = head / (c.value_heads / c.key_heads);
  const auto unit = [&](Index col) -> Eigen::VectorXd {
    const Eigen::VectorXd v = qkvz.row(row).segment(col, c.key_dim).transpose().cast<double>();
    return v / std::sqrt(v.squaredNorm() + 1e-6);
  };
  const Eigen::VectorXd q = unit(key_head * c.key_dim), k = unit(keys + key_head * c.key_dim);
  const double write = 1 / (1 + std::exp(-static_cast<double>(gates(row, head))));
  const double decay = std::exp(-std::log1p(std::exp(static_cast<double>(gates(row, c.value_heads + head)))));
  state *= decay;
  const Eigen::VectorXd value =
      qkvz.row(row).segment(2 * keys + head * c.value_dim, c.value_dim).transpose().cast<double>();
  state += write * k * (value - state.transpose() * k).transpose();
  const Eigen::VectorXd read = state.transpose() * q;
  const double size = std::sqrt(read.squaredNorm() / static_cast<double>(c.value_dim) + 1e-6);
  for (Index i = 0; i < c.value_dim; ++i) {
    const double z = qkvz(row, 2 * keys + values + head * c.value_dim + i);
    out(row, head * c.value_dim + i) = static_cast<float>(read(i) / size * z / (1 + std::exp(-z)));
  }
}

void expect_recurrence(const LinearCase& c, bool keep_each) {
  SCOPED_TRACE(testing::Message() << (c.real == Real::f32 ? "f32" : "bf16") << (c.tree ? " tree" : " chain")
                                  << " heads " << c.key_heads << "/" << c.value_heads << " dims " << c.key_dim << "x"
                                  << c.value_dim << " queries " << c.queries
                                  << (keep_each ? "" : ", committed at once"));
  const DType type = dtype_of(c.real);
  Scene scene({0, 7, 9}, c.queries, c.tree);
  const Index values = c.value_heads * c.value_dim;
  const Matrix qkvz = random_matrix(scene.count(), 2 * c.key_heads * c.key_dim + 2 * values, type, scene.random) * 2;
  const Matrix gates = random_matrix(scene.count(), 2 * c.value_heads + 3, type, scene.random) * 2;
  const Index head_state = c.key_dim * c.value_dim;
  const Matrix state = random_matrix(3, c.value_heads * head_state, DType::f32, scene.random);
  std::vector<std::int32_t> parent(static_cast<std::size_t>(scene.count()));
  Matrix expected(scene.count(), values), after(scene.count(), state.cols());
  scene.each_token([&](std::size_t s, std::size_t n, Index row) {
    const int follows = scene.sequences[s].parent[n];
    const Index from = follows < 0 ? -1 : row - static_cast<Index>(n) + follows;
    parent[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(from);
    for (Index h = 0; h < c.value_heads; ++h) {
      const float* before = from < 0 ? &state(static_cast<Index>(s), h * head_state) : &after(from, h * head_state);
      Eigen::MatrixXd memory = Eigen::Map<const Matrix>(before, c.key_dim, c.value_dim).cast<double>();
      recur(c, h, qkvz, gates, row, memory, expected);
      Eigen::Map<Matrix>(&after(row, h * head_state), c.key_dim, c.value_dim) = memory.cast<float>();
    }
  });

  const OnDevice<std::uint8_t> device_qkvz(packed(qkvz, type)), device_gates(packed(gates, type));
  const OnDevice<std::uint8_t> device_state(packed(state, DType::f32));
  const OnDevice<float> device_after(static_cast<std::size_t>(after.size()));
  const OnDevice<std::int32_t> device_parent(parent);
  const OnDevice<std::uint8_t> out(static_cast<std::size_t>(expected.size()) * size_of(type));
  LinearCall call;
  call.op = {3, c.queries, c.value_heads, c.key_dim, c.value_dim, 0};
  call.qkvz = device_qkvz.get();
  call.key_heads = c.key_heads;
  call.gates = device_gates.get();
  call.gates_stride = gates.cols();
  call.out = out.get();
  call.state = reinterpret_cast<float*>(device_state.get());
  call.after = keep_each ? device_after.get() : nullptr;
  call.parent = keep_each ? device_parent.get() : nullptr;
  linear_attention(call, scene.meta(), c.real, nullptr);
  EXPECT_TRUE(close(unpacked(out.read(), expected.rows(), values, type), expected, limit_of(c.real)));
  const Matrix committed = unpacked(device_state.read(), state.rows(), state.cols(), DType::f32);
  if (keep_each) {
    EXPECT_EQ(committed, state) << "the committed states changed";
    const std::vector<float> kept = device_after.read();
    EXPECT_TRUE(close(Eigen::Map<const Matrix>(kept.data(), after.rows(), after.cols()), after, 1e-9));
    return;
  }
  Matrix last(state.rows(), state.cols());
  for (Index s = 0; s < last.rows(); ++s) last.row(s) = after.row((s + 1) * c.queries - 1);
  EXPECT_TRUE(close(committed, last, 1e-9));
}

TEST_F(Recurs, AsInDoubleOverChainsAndTrees) {
  for (const Real real : {Real::f32, Real::bf16})
    for (const bool tree : {false, true}) {
      expect_recurrence({real, tree, 2, 4, 128, 128, 5}, true);
      expect_recurrence({real, tree, 1, 3, 64, 32, 8}, true);
      expect_recurrence({real, tree, 1, 1, 12, 20, 3}, true);
      expect_recurrence({real, tree, 1, 2, 128, 256, 2}, true);
    }
}

TEST_F(Recurs, CommitsAPromptAtOnce) {
  for (const Real real : {Real::f32, Real::bf16}) expect_recurrence({real, false, 2, 4, 128, 128, 100}, false);
}

}  // namespace
}  // namespace specstep::cuda
