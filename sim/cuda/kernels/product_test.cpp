// Products against loops in double precision over the values that are stored.
#include "sim/cuda/kernels/product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "model/base/formatted.h"
#include "sim/cuda/kernels/product_test_device.h"

namespace specstep::cuda {
namespace {

/// Rows of each expert, as the router leaves them. Pairs are dealt out in a scattered order; `others` are of other
/// ranks.
struct Routing {
  std::vector<std::int32_t> pair_of, begin, spans;
  std::int64_t pairs = 0;

  explicit Routing(const std::vector<std::int64_t>& rows_each, std::int64_t others = 0) {
    const std::int64_t used = std::accumulate(rows_each.begin(), rows_each.end(), std::int64_t{0});
    pairs = used + others;
    std::int64_t step = 7;  // without a common divisor with the number of pairs: each comes once
    while (std::gcd(step, pairs) != 1) ++step;
    spans = {0, static_cast<std::int32_t>(used)};
    std::int32_t place = 0;
    for (std::size_t e = 0; e < rows_each.size(); ++e) {
      begin.push_back(place);
      if (rows_each[e] > 0) spans.insert(spans.end(), {static_cast<std::int32_t>(e), place}), ++spans[0];
      place += static_cast<std::int32_t>(rows_each[e]);
    }
    begin.push_back(place);
    for (std::int64_t i = 0; i < used; ++i) pair_of.push_back(static_cast<std::int32_t>((i * step + 3) % pairs));
    pair_of.resize(static_cast<std::size_t>(pairs), -1);
    spans.resize(2 * (rows_each.size() + 1), -1);
  }
};

class DeviceRouting {
 public:
  explicit DeviceRouting(const Routing& r) : pair_of_(r.pair_of), begin_(r.begin), spans_(r.spans) {}
  void upload(const Routing& r) { pair_of_.upload(r.pair_of), begin_.upload(r.begin), spans_.upload(r.spans); }
  Grouping get() const { return {pair_of_.get(), begin_.get(), spans_.get()}; }

 private:
  Device<std::int32_t> pair_of_, begin_, spans_;
};

/// Values of the activations' type in device memory.
class Activations {
 public:
  Activations(std::int64_t count, Real real)
      : real_(real), count_(static_cast<std::size_t>(count)), bytes_(count_ * (real == Real::f32 ? 4 : 2)) {}
  Activations(const std::vector<float>& from, Real real) : Activations(static_cast<std::int64_t>(from.size()), real) {
    std::vector<std::uint8_t> bytes(count_ * (real == Real::f32 ? 4 : 2));
    for (std::size_t i = 0; i < count_; ++i) {
      const std::uint16_t half = bf16_bits(from[i]);
      if (real == Real::f32)
        std::memcpy(&bytes[4 * i], &from[i], 4);
      else
        std::memcpy(&bytes[2 * i], &half, 2);
    }
    bytes_.upload(bytes);
  }
  std::vector<float> values() const {
    const std::vector<std::uint8_t> bytes = bytes_.download();
    std::vector<float> out(count_);
    for (std::size_t i = 0; i < count_; ++i) {
      std::uint16_t half = 0;
      if (real_ == Real::f32)
        std::memcpy(&out[i], &bytes[4 * i], 4);
      else
        std::memcpy(&half, &bytes[2 * i], 2), out[i] = bf16_value(half);
    }
    return out;
  }
  std::vector<std::uint8_t> bytes() const { return bytes_.download(); }
  void* get() const { return bytes_.get(); }

 private:
  Real real_;
  std::size_t count_;
  Device<std::uint8_t> bytes_;
};

/// Sums of products of one row of the input with all rows of a matrix.
std::vector<double> exact_row(const float* in, const float* weight, std::int64_t n, std::int64_t k) {
  std::vector<double> out(static_cast<std::size_t>(n));
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t c = 0; c < k; ++c)
      out[static_cast<std::size_t>(r)] += static_cast<double>(in[c]) * static_cast<double>(weight[r * k + c]);
  return out;
}

/// Mean squared error over mean square, and where it is worst.
struct Difference {
  double squared = 0, square = 0, worst = 0;
  std::string where = "nowhere";

  void add(std::int64_t row, const std::vector<double>& expected, const float* got) {
    for (std::size_t c = 0; c < expected.size(); ++c) {
      const double off = std::isfinite(got[c]) ? std::fabs(got[c] - expected[c]) : 1e30;
      squared += off * off, square += expected[c] * expected[c];
      if (off <= worst) continue;
      worst = off;
      where = formatted("row {}, column {}: got {}, expected {}", row, c, got[c], expected[c]);
    }
  }
  double nmse() const { return square > 0 ? squared / square : 1e30; }
};

// Rounding a result to bf16 changes it by up to 2^-9 of itself, at most (2^-9)^2 = 3.8e-6 in the mean square.
double limit_of(Real real) { return real == Real::f32 ? 1e-10 : 1e-5; }

struct Case {
  std::string name;
  Part weight;
  std::vector<std::int64_t> rows_each;
  std::int64_t others = 0, share = 1;
  std::int64_t in_pad = 0;  // values between rows of the input
};

void check_grouped(const Case& c, Real real) {
  const Part& w = c.weight;
  const Routing routing(c.rows_each, c.others);
  const DeviceRouting on_device(routing);
  const TestMatrix matrix(w, real);
  const std::int64_t in_stride = w.cols + c.in_pad, out_stride = w.rows + 8;
  const std::int64_t in_rows = (routing.pairs + c.share - 1) / c.share;
  const Activations in(numbers(in_rows * in_stride, 1), real), out(routing.pairs * out_stride, real);
  GroupedProduct call{in.get(),      in_stride,       c.share,      out.get(),   out_stride,
                      routing.pairs, on_device.get(), matrix.get(), c.others > 0};
  grouped_product(call, real, nullptr);
  const std::vector<float> x = in.values(), weights = matrix.unpacked(), got = out.values();

  Difference difference;
  std::vector<bool> met(static_cast<std::size_t>(routing.pairs));
  std::int64_t place = 0;
  for (std::size_t e = 0; e < c.rows_each.size(); ++e)
    for (std::int64_t i = 0; i < c.rows_each[e]; ++i, ++place) {
      const std::int64_t pair = routing.pair_of[static_cast<std::size_t>(place)];
      met[static_cast<std::size_t>(pair)] = true;
      difference.add(pair,
                     exact_row(&x[static_cast<std::size_t>(pair / c.share * in_stride)],
                               &weights[e * static_cast<std::size_t>(w.rows * w.cols)], w.rows, w.cols),
                     &got[static_cast<std::size_t>(pair * out_stride)]);
    }
  const std::string what = formatted("{}, {}", c.name, real == Real::f32 ? "f32" : "bf16");
  const Activations early(routing.pairs * out_stride, real);
  call.out = early.get(), call.settled = true;
  grouped_product(call, real, nullptr);
  EXPECT_EQ(early.bytes(), out.bytes()) << what << ": weights that are read early";
  EXPECT_LT(difference.nmse(), limit_of(real)) << what << "; worst at " << difference.where;
  const float untouched = real == Real::f32 ? std::bit_cast<float>(0xA5A5A5A5U) : bf16_value(0xA5A5);
  for (std::int64_t p = 0; p < routing.pairs; ++p)
    for (std::int64_t n = 0; n < out_stride; ++n) {
      const bool behind = n >= w.rows;
      if (!behind && met[static_cast<std::size_t>(p)]) continue;
      ASSERT_EQ(got[static_cast<std::size_t>(p * out_stride + n)], behind ? untouched : 0.0F)
          << what << ": pair " << p << ", column " << n << (behind ? " lies behind the row" : " is another rank's");
    }
}

const WeightFormat bf16{DType::bf16, 0, DType::bf16}, int4{DType::int4, 32, DType::bf16},
    mxfp4{DType::mxfp4, 32, DType::fp8}, nvfp4{DType::nvfp4, 16, DType::fp8}, fp8{DType::fp8, 128, DType::f32},
    fp8_row{DType::fp8, 16384, DType::f32}, fp8_whole{DType::fp8, 0, DType::f32}, int8{DType::int8, 64, DType::f32},
    int8_whole{DType::int8, 0, DType::f32}, f16{DType::f16, 0, DType::bf16};
const std::vector<std::pair<std::string, WeightFormat>> tensor_formats = {
    {"bf16", bf16},        {"int4", int4},           {"mxfp4", mxfp4}, {"nvfp4", nvfp4},          {"fp8", fp8},
    {"fp8 rows", fp8_row}, {"fp8 whole", fp8_whole}, {"int8", int8},   {"int8 whole", int8_whole}};

class Products : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_gpu()) GTEST_SKIP() << "no GPU";
  }
};

TEST_F(Products, OfEveryFormatInEveryShape) {
  for (const auto& [name, format] : tensor_formats) {
    const auto part = [&f = format](std::int64_t experts, std::int64_t n, std::int64_t k) {
      return Part{f, experts, n, k};
    };
    for (const Case& c : std::vector<Case>{
             {"one row of one expert, short", part(1, 16, 64), {1}},
             {"short rows of the matrix, some experts empty", part(7, 128, 256), {0, 1, 0, 3, 8, 0, 2}},
             {"long rows of the matrix, gate and up of shared tokens", part(6, 64, 2048), {2, 0, 1, 1, 0, 4}, 0, 4},
             {"rows longer than the stage", part(2, 32, 5120), {16, 11}},
             {"odd sizes", part(3, 72, 1376), {5, 9, 1}, 2},
             {"odd short sizes", part(3, 136, 96), {5, 17, 1}, 2},
             {"all pairs on one expert", part(4, 48, 1088), {0, 0, 70, 0}},
             {"prompt", part(3, 200, 1120), {90, 3, 65}, 5},
             {"prompt of experts with few and many rows", part(9, 600, 416), {0, 70, 5, 130, 0, 64, 17, 0, 33}, 3},
             {"prompt of odd rows of the matrix", part(3, 277, 96), {20, 49, 1}, 0, 2},
             {"one token of more experts than a warp has lanes", part(45, 48, 64), std::vector<std::int64_t>(45, 1), 0,
              45},
             {"unaligned rows of the input", part(2, 40, 1056), {3, 2}, 0, 1, 3}}) {
      Case named = c;
      named.name = formatted("{}: {}", name, c.name);
      check_grouped(named, Real::bf16);
    }
  }
}

TEST_F(Products, OfPartsThatBeginInsideAGroup) {
  for (const Case& c : std::vector<Case>{
           {"int4, half of a group of 64", {{DType::int4, 64, DType::bf16}, 3, 24, 96, 96, 384}, {2, 1, 0}},
           {"fp8, a row's scale", {fp8_row, 3, 24, 1056, 2112, 4224}, {2, 1, 9}},
           {"nvfp4, half of a group of 32", {{DType::nvfp4, 32, DType::fp8}, 2, 24, 48, 48, 96}, {2, 1}},
           {"int4 from the middle of a step", {int4, 2, 24, 16, 48, 64}, {2, 5}},
           {"mxfp4, 360 columns a rank as of gpt-oss-120b", {mxfp4, 3, 48, 360, 1080, 2880}, {2, 1, 10}},
           {"fp8, columns of a rank from inside a group", {fp8, 3, 48, 360, 1080, 2880}, {2, 1, 10}},
           {"nvfp4, odd columns a rank", {nvfp4, 3, 24, 45, 135, 180}, {2, 1, 9}},
           {"int8, long rows with a lead", {int8, 2, 24, 1080, 1080, 2160}, {3, 17}}})
    check_grouped(c, Real::bf16);
}

TEST_F(Products, BehindEachOtherWithIdleBlocks) {
  // One token, and of its experts one is here, or none.
  for (const WeightFormat& format : {int4, fp8}) {
    constexpr std::int64_t n = 512, k = 1024;
    const TestMatrix matrix({format, 8, n, k}, Real::bf16);
    const Activations in(numbers(k, 1), Real::bf16), one(8 * n, Real::bf16), none(8 * n, Real::bf16);
    const Activations many(8 * n, Real::bf16);
    const Routing some({0, 0, 0, 1, 0, 0, 0, 0}, 7), nothing({0, 0, 0, 0, 0, 0, 0, 0}, 8);
    const DeviceRouting here(some), elsewhere(nothing);
    GroupedProduct call{in.get(), k, 8, one.get(), n, 8, here.get(), matrix.get()};
    grouped_product(call, Real::bf16, nullptr);
    call.out = many.get();
    for (int i = 0; i < 200; ++i) {
      call.grouping = i % 3 == 1 ? elsewhere.get() : here.get();
      grouped_product(call, Real::bf16, nullptr);
    }
    EXPECT_EQ(many.bytes(), one.bytes());
    call.out = none.get(), call.grouping = elsewhere.get();
    grouped_product(call, Real::bf16, nullptr);
    const std::vector<std::uint8_t> untouched(8 * n * 2, 0xA5);
    EXPECT_EQ(none.bytes(), untouched);
  }
}

TEST_F(Products, OfKimiExperts) {
  const std::vector<std::int64_t> rows_each = {1, 0, 2, 1, 0, 0, 1, 3, 0, 0, 9, 1, 0, 20};
  check_grouped({"gate and up", {int4, 14, 512, 7168}, rows_each}, Real::bf16);
  check_grouped({"down", {int4, 14, 7168, 256, 512, 2048}, rows_each}, Real::bf16);
}

TEST_F(Products, OfWhatTensorCoresDoNotTake) {
  for (const Case& c :
       std::vector<Case>{{"f16", {f16, 3, 21, 100}, {2, 0, 6}},
                         {"f32", {{DType::f32, 0, DType::bf16}, 2, 8, 65}, {2, 5}},
                         {"bf16, rows of no 16 bytes", {bf16, 2, 24, 100}, {2, 5}},
                         {"int4 in groups of 24", {{DType::int4, 24, DType::bf16}, 2, 24, 72}, {2, 5}},
                         {"int4 with scales of f32", {{DType::int4, 32, DType::f32}, 2, 24, 96}, {2, 5}},
                         {"fp8 in groups of 16", {{DType::fp8, 16, DType::bf16}, 2, 24, 72}, {2, 5}, 1, 2}})
    check_grouped(c, Real::bf16);
}

TEST_F(Products, InFloats) {
  for (const auto& [name, format] : tensor_formats) {
    check_grouped({name + " few", {format, 5, 24, 200}, {1, 0, 2, 5, 0}, 3, 2}, Real::f32);
    check_grouped({name + " many", {format, 2, 40, 1000}, {70, 1}}, Real::f32);
  }
}

void check_dense(const Part& weight, const std::string& name, std::int64_t m, Real real, bool f32_out) {
  const TestMatrix matrix(weight, real);
  const Real out_real = f32_out ? Real::f32 : real;
  const Activations in(numbers(m * weight.cols, 2), real), out(m * weight.rows, out_real);
  dense_product({in.get(), weight.cols, out.get(), weight.rows, m, matrix.get(), f32_out}, real, nullptr);
  const std::vector<float> x = in.values(), weights = matrix.unpacked(), got = out.values();
  Difference difference;
  for (std::int64_t r = 0; r < m; ++r)
    difference.add(r,
                   exact_row(&x[static_cast<std::size_t>(r * weight.cols)], weights.data(), weight.rows, weight.cols),
                   &got[static_cast<std::size_t>(r * weight.rows)]);
  EXPECT_LT(difference.nmse(), limit_of(out_real))
      << name << ", " << m << " rows" << (f32_out ? ", floats out" : "") << "; worst at " << difference.where;
}

TEST_F(Products, OfOneMatrix) {
  for (const auto& [name, format] : tensor_formats)
    for (const std::int64_t m : {1, 7, 16, 17, 65, 150}) {
      check_dense({format, 1, 264, 1056}, name + ", long", m, Real::bf16, false);
      check_dense({format, 1, 264, 160}, name + ", short", m, Real::bf16, true);
      check_dense({format, 1, 40, 72}, name, m, Real::f32, false);
    }
}

/// What a call gives with the given routing, as bytes.
struct Call {
  static constexpr std::int64_t n = 64, k = 2048;
  const TestMatrix matrix{{int4, 6, n, k}, Real::bf16};
  const Activations in{numbers(32 * k, 3), Real::bf16};

  void put(const Activations& out, const DeviceRouting& routing, std::int64_t pairs, cudaStream_t stream) const {
    grouped_product({in.get(), k, 1, out.get(), n, pairs, routing.get(), matrix.get()}, Real::bf16, stream);
  }
};

// What speculation relies on: a token's numbers do not depend on what else is in the pass.
TEST_F(Products, OfARowDoNotDependOnOtherRows) {
  const Call call;
  const Routing alone({0, 0, 1, 0, 0, 0}), among({0, 3, 14, 0, 1, 2});
  const Activations one(Call::n, Real::bf16), many(among.pairs * Call::n, Real::bf16);
  call.put(one, DeviceRouting(alone), alone.pairs, nullptr);
  call.put(many, DeviceRouting(among), among.pairs, nullptr);
  ASSERT_EQ(alone.pair_of[0], 0);
  const auto place = std::find(among.pair_of.begin(), among.pair_of.end(), 0) - among.pair_of.begin();
  ASSERT_TRUE(place >= among.begin[2] && place < among.begin[3]) << "row 0 is to be one of expert 2";
  const std::vector<std::uint8_t> a = one.bytes(), b = many.bytes();
  EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
}

// Where weights are read before the kernel before ends, the input is not.
TEST_F(Products, OfASettledGroupingWaitForTheirInput) {
  constexpr std::int64_t hidden = 2048, width = 256, pairs = 12;
  const Routing routing({3, 0, 1, 5, 2, 1});
  const DeviceRouting grouping(routing);
  const TestMatrix up({int4, 6, width, hidden}, Real::bf16), down({int4, 6, hidden, width}, Real::bf16);
  const Activations in(numbers(pairs * hidden, 3), Real::bf16), between(pairs * width, Real::bf16);
  const Activations expected(pairs * hidden, Real::bf16);
  const auto put = [&](const StoredMatrix& w, const Activations& from, const Activations& to, bool settled) {
    GroupedProduct call{from.get(), w.cols, 1, to.get(), w.rows, pairs, grouping.get(), w};
    call.settled = settled;
    grouped_product(call, Real::bf16, nullptr);
  };
  put(up.get(), in, between, false);
  comm::check(cudaDeviceSynchronize(), "first product");
  put(down.get(), between, expected, false);
  const std::vector<std::uint8_t> bytes = expected.bytes();
  for (int i = 0; i < 50; ++i) {
    const Activations now(pairs * width, Real::bf16), out(pairs * hidden, Real::bf16);
    put(up.get(), in, now, false);
    put(down.get(), now, out, true);
    ASSERT_EQ(out.bytes(), bytes) << "at repetition " << i;
  }
}

// A captured product follows the router: the graph is made with one routing and replayed with another.
TEST_F(Products, CapturedFollowTheRouter) {
  const Call call;
  const Routing first({4, 0, 0, 0, 0, 0}), second({0, 1, 0, 2, 0, 1});
  DeviceRouting routing(first);
  const Activations captured(4 * Call::n, Real::bf16), direct(4 * Call::n, Real::bf16);
  cudaStream_t stream = nullptr;
  comm::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  const std::unique_ptr<CUstream_st, decltype(&cudaStreamDestroy)> stream_guard(stream, &cudaStreamDestroy);
  comm::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  call.put(captured, routing, 4, stream);
  cudaGraph_t graph = nullptr;
  comm::check(cudaStreamEndCapture(stream, &graph), "capture");
  const std::unique_ptr<CUgraph_st, decltype(&cudaGraphDestroy)> graph_guard(graph, &cudaGraphDestroy);
  cudaGraphExec_t exec = nullptr;
  comm::check(cudaGraphInstantiate(&exec, graph, 0), "graph");
  const std::unique_ptr<CUgraphExec_st, decltype(&cudaGraphExecDestroy)> exec_guard(exec, &cudaGraphExecDestroy);
  for (const Routing& now : {first, second}) {
    routing.upload(now);
    comm::check(cudaGraphLaunch(exec, stream), "graph");
    comm::check(cudaStreamSynchronize(stream), "graph");
    call.put(direct, routing, 4, nullptr);
    EXPECT_EQ(captured.bytes(), direct.bytes());
  }
  const Activations last(4 * Call::n, Real::bf16);
  call.put(last, DeviceRouting(first), 4, nullptr);
  EXPECT_NE(captured.bytes(), last.bytes()) << "the two routings are to differ";
}

}  // namespace
}  // namespace specstep::cuda
