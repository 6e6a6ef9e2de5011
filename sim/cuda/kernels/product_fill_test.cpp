// Matrices made on the device are those of the host, bit for bit.
#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "model/base/formatted.h"
#include "sim/cuda/kernels/product_layout.h"
#include "sim/cuda/kernels/product_test_device.h"
#include "sim/host/weights.h"

namespace specstep::cuda {
namespace {

constexpr std::uint64_t seed = 0x123456789ABCDEF0;

const std::vector<WeightFormat> formats = {
    {DType::f32, 0, DType::bf16},   {DType::bf16, 0, DType::bf16},  {DType::f16, 0, DType::bf16},
    {DType::fp8, 0, DType::f32},    {DType::fp8, 128, DType::f32},  {DType::fp8, 16384, DType::f32},
    {DType::fp8, 16, DType::bf16},  {DType::int8, 0, DType::bf16},  {DType::int8, 32, DType::f32},
    {DType::int8, 64, DType::bf16}, {DType::int4, 32, DType::bf16}, {DType::int4, 32, DType::fp8},
    {DType::int4, 24, DType::f16},  {DType::int4, 128, DType::f32}, {DType::nvfp4, 16, DType::fp8},
    {DType::nvfp4, 6, DType::fp8},  {DType::mxfp4, 32, DType::fp8}};

std::string text_of(const WeightFormat& f) {
  return formatted("{} group {} scale {}", name_of(f.dtype), f.group, name_of(f.scale));
}

/// A weight of a model, as one rank of four cuts it.
struct Shape {
  const char* name;
  StepKind step;
  Shard shard;
  std::int64_t count, rows, cols;
  int rank;
};

// Columns 48 and 10 a rank begin inside groups, and 10 inside the generator's fours; 50 vocabulary rows leave padding
// on rank 2 of 4 at 20 rows each; a gain is one column.
const std::vector<Shape> shapes = {{"first part of the columns", StepKind::expert_down, Shard::expert, 3, 24, 48, 0},
                                   {"second part of the columns", StepKind::expert_down, Shard::expert, 3, 24, 48, 1},
                                   {"last part of the columns", StepKind::expert_down, Shard::expert, 2, 16, 48, 3},
                                   {"narrow part of the columns", StepKind::o_proj, Shard::row, 1, 33, 10, 3},
                                   {"wide part of the columns", StepKind::o_proj, Shard::row, 1, 5, 1000, 2},
                                   {"halves of rows", StepKind::expert_gate_up, Shard::expert, 2, 40, 200, 1},
                                   {"vocabulary with padding", StepKind::lm_head, Shard::column, 1, 20, 64, 2},
                                   {"gain", StepKind::mlp_norm, Shard::replicated, 1, 100, 1, 0}};

struct Made {
  std::vector<float> expected, got;
};

/// The same weight by host::make_weight and by fill. The name of the stream is that of sim/host/weights.cpp: kind and
/// layer.
Made make_both(const Shape& shape, const WeightFormat& format, Real real) {
  Plan plan;
  plan.layout.tensor = 4;
  host::ModelView model;
  model.vocab = 50;
  const Weight weight{5, shape.step, shape.count, shape.rows, shape.cols, format, shape.shard};
  Made made;
  for (const host::Matrix& m : host::make_weight(plan, weight, shape.rank, model, seed))
    made.expected.insert(made.expected.end(), m.data(), m.data() + m.size());

  const host::Cut cut = host::cut_of(plan, weight, shape.rank, model);
  const host::PhiloxKey key = host::philox_key(seed);
  const auto bound = static_cast<float>(std::sqrt(3.0) / std::sqrt(static_cast<double>(cut.whole_cols)));
  const Device<std::int64_t> matrices(cut.matrices), rows(cut.rows);
  const Fill from{{key[0], key[1]},
                  (static_cast<std::uint32_t>(shape.step) << 20) | 6,
                  bound,
                  shape.cols == 1,
                  matrices.get(),
                  rows.get(),
                  cut.first_col,
                  cut.whole_cols};
  const WeightFormat stored = real == Real::f32 ? WeightFormat{.dtype = DType::f32} : format;
  const StoredBytes bytes = stored_bytes(stored, shape.count, shape.rows, shape.cols);
  const Device<std::uint8_t> values(static_cast<std::size_t>(bytes.values)),
      scales(static_cast<std::size_t>(bytes.scales));
  const StoredMatrix target{
      stored,      values.get(), scales.get(), whole_scale(stored, bound),
      shape.count, shape.rows,   shape.cols,   stored.group > 0 ? cut.first_col % stored.group : 0};
  fill(target, from, format, nullptr);
  const Device<float> out(made.expected.size());
  unpack(target, out.get(), Real::f32, nullptr);
  made.got = out.download();
  return made;
}

void expect_equal(const Made& made, const Shape& shape, const std::string& what) {
  std::size_t wrong = 0, first = 0, nonzero = 0;
  for (std::size_t i = made.expected.size(); i-- > 0;) {
    if (made.expected[i] != 0) ++nonzero;
    if (made.expected[i] == made.got[i]) continue;
    ++wrong;
    first = i;
  }
  EXPECT_GT(nonzero, made.expected.size() / 4) << what << ": the expectation itself is empty";
  if (wrong == 0) return;
  const auto cols = static_cast<std::size_t>(shape.cols), rows = static_cast<std::size_t>(shape.rows);
  ADD_FAILURE() << formatted("{}: {} of {} values differ, first at matrix {}, row {}, column {}: got {}, expected {}",
                             what, wrong, made.expected.size(), first / cols / rows, first / cols % rows, first % cols,
                             made.got[first], made.expected[first]);
}

TEST(Fill, GivesWhatTheHostGives) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const Real real : {Real::bf16, Real::f32})
    for (const WeightFormat& format : formats)
      for (const Shape& shape : shapes) {
        if (shape.cols == 1 && (format.group > 0 || format.dtype == DType::fp8 || format.dtype == DType::int8))
          continue;  // gains exceed the bound that such a format is scaled by
        expect_equal(make_both(shape, format, real), shape,
                     formatted("{}, {}, {}", real == Real::f32 ? "as floats" : "stored", text_of(format), shape.name));
      }
}

TEST(Fill, AnyNumbersAreSmallAndFinite) {
  if (!has_gpu()) GTEST_SKIP() << "no GPU";
  for (const WeightFormat& format : formats) {
    const std::int64_t rows = 40, cols = 136;
    const StoredBytes bytes = stored_bytes(format, 2, rows, cols);
    const Device<std::uint8_t> values(static_cast<std::size_t>(bytes.values)),
        scales(static_cast<std::size_t>(bytes.scales));
    const float bound = std::sqrt(3.0F / static_cast<float>(cols));
    const StoredMatrix m{format, values.get(), scales.get(), whole_scale(format, bound), 2, rows, cols};
    fill_any(m, 7, nullptr);
    const Device<float> out(static_cast<std::size_t>(2 * rows * cols));
    unpack(m, out.get(), Real::f32, nullptr);
    double squares = 0;
    for (const float v : out.download()) {
      ASSERT_TRUE(std::isfinite(v)) << text_of(format);
      ASSERT_LE(std::fabs(v), 1.5F * bound) << text_of(format);
      squares += static_cast<double>(v) * v;
    }
    // One scale for a whole fp8 matrix is made for codes up to 448, and these are below 2.
    if (format.dtype != DType::fp8 || format.group > 0) {
      EXPECT_GT(squares / static_cast<double>(2 * rows * cols), 0.05 * bound * bound) << text_of(format);
    }
  }
}

TEST(Fill, RefusesWhatDoesNotBelongTogether) {
  const WeightFormat int4{DType::int4, 32, DType::bf16};
  StoredMatrix m{int4, nullptr, nullptr, 1, 1, 16, 48};
  Fill from{.bound = 0.1F, .first_col = 48, .whole_cols = 96};
  EXPECT_THROW(fill(m, from, int4, nullptr), std::exception) << "phase 0, but column 48 lies inside a group";
  m.phase = 32;
  EXPECT_THROW(fill(m, from, int4, nullptr), std::exception) << "a phase as long as a group";
  m.phase = 16, m.whole_scale = 2;
  EXPECT_THROW(fill(m, from, int4, nullptr), std::exception) << "int4 has no scale of the whole matrix";
  m.whole_scale = 1, m.format.scale = DType::int8;
  EXPECT_THROW(fill(m, from, m.format, nullptr), std::exception) << "scales of whole numbers";
}

// Each thread of a fragment finds its two rows and four columns of each step in its own 16 bytes.
TEST(Layout, TilesHoldEachCodeOnceWhereItsThreadReads) {
  for (const Layout layout : {Layout::bytes, Layout::nibbles}) {
    const int cols = tile_cols(layout), codes_of_thread = tile_rows * cols / 32;
    std::set<int> places;
    for (int row = 0; row < tile_rows; ++row)
      for (int col = 0; col < cols; ++col) {
        const int place = place_in_tile(layout, row, col);
        EXPECT_TRUE(places.insert(place).second) << row << ", " << col;
        EXPECT_EQ(place / codes_of_thread, row % 8 * 4 + col % 16 / 4) << row << ", " << col;
      }
    EXPECT_EQ(*places.begin(), 0);
    EXPECT_EQ(*places.rbegin(), tile_rows * cols - 1);
  }
}

// What the product's shifts and masks bring to the places of a bf16 number is the code.
TEST(Layout, ScatteredCodesAreShiftedToTheirPlaces) {
  for (std::uint32_t code = 0; code < 16; ++code) {
    const std::uint32_t expected = (code >> 3) << 15 | (code & 7) << 6;
    const auto half = [&](int place) { return scatter_code(DType::mxfp4, code, place); };
    EXPECT_EQ(half(0), expected);
    EXPECT_EQ(((half(1) << 1) & 0x8000) | ((half(1) << 3) & 0x01C0), expected);
    EXPECT_EQ((half(2) << 6) & 0x81C0, expected);
    EXPECT_EQ(((half(3) << 2) & 0x8000) | ((half(3) >> 4) & 0x01C0), expected);
    for (int place = 0; place < 4; ++place)
      EXPECT_EQ(scatter_code(DType::mxfp4, code, place + 4), half(place) << 16) << place;
    for (int place = 0; place < 8; ++place) {
      const std::uint32_t turned = std::rotl(scatter_code(DType::int4, code, place), place % 4 * 4);
      EXPECT_EQ(turned, ((code >> 3) << 15 | (code & 7) << 4) << place / 4 * 16) << place;
    }
    for (const DType type : {DType::int4, DType::mxfp4, DType::nvfp4}) {
      std::uint32_t others = 0;
      for (int place = 0; place < 8; ++place) {
        const std::uint32_t own = scatter_code(type, 15, place);
        EXPECT_EQ(gather_code(type, scatter_code(type, code, place) | ~own, place), code) << place;
        EXPECT_EQ(others & own, 0U) << place;
        others |= own;
      }
      EXPECT_EQ(others, ~0U);
    }
  }
}

TEST(Layout, BytesAreThoseOfTheFormat) {
  const WeightFormat int4{DType::int4, 32, DType::bf16};
  const StoredBytes kimi = stored_bytes(int4, 384, 512, 7168);
  EXPECT_EQ(kimi.values + kimi.scales, static_cast<std::int64_t>(384 * 512 * 7168 * int4.bytes_per_value()));
  const WeightFormat fp8{DType::fp8, 128, DType::f32};
  const StoredBytes wide = stored_bytes(fp8, 2, 512, 1024);
  EXPECT_EQ(wide.values + wide.scales, static_cast<std::int64_t>(2 * 512 * 1024 * fp8.bytes_per_value()));
}

}  // namespace
}  // namespace specstep::cuda
