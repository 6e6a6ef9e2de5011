// Rows of values against plain loops in double.
#include "sim/cuda/kernels/elementwise.h"

#include <array>

#include "sim/cuda/kernels/device_test.h"

namespace specstep::cuda {
namespace {

constexpr Real reals[] = {Real::f32, Real::bf16};

std::string text(const char* op, Real real, std::initializer_list<std::int64_t> shape) {
  std::string out = std::string(op) + " " + name_of(real);
  for (const std::int64_t n : shape) out += " " + std::to_string(n);
  return out;
}
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }
double exact(float value) { return value; }

/// out[i] = in[i] / rms(in) * gain[i].
void normed(const float* in, const std::vector<float>& gain, double* out) {
  double sum = 0;
  for (std::size_t c = 0; c < gain.size(); ++c) sum += exact(in[c]) * exact(in[c]);
  const double scale = 1 / std::sqrt(sum / static_cast<double>(gain.size()) + 1e-6);
  for (std::size_t c = 0; c < gain.size(); ++c) out[c] = exact(in[c]) * scale * exact(gain[c]);
}
std::vector<double> normed_rows(const std::vector<float>& in, const std::vector<float>& gain) {
  std::vector<double> out(in.size());
  for (std::size_t r = 0; r < in.size(); r += gain.size()) normed(&in[r], gain, &out[r]);
  return out;
}
std::vector<float> sums(Real real, const std::vector<float>& a, const std::vector<float>& b) {
  std::vector<float> out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    out[i] = real == Real::f32 ? a[i] + b[i] : host::rounded(a[i] + b[i], DType::bf16);
  return out;
}
/// Rows of `width` out of rows of `stride`.
std::vector<float> dense(const std::vector<float>& rows, std::int64_t stride, std::int64_t width) {
  std::vector<float> out;
  for (std::int64_t r = 0; r * stride < static_cast<std::int64_t>(rows.size()); ++r)
    out.insert(out.end(), rows.begin() + r * stride, rows.begin() + r * stride + width);
  return out;
}
/// Every value of a row behind its first `width` is still poison.
void expect_gaps(const std::string& what, const Values& values, std::int64_t stride, std::int64_t width) {
  const std::vector<float> all = values.back();
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (static_cast<std::int64_t>(i) % stride < width || all[i] == values.poison()) continue;
    ADD_FAILURE() << what << ": wrote " << all[i] << " behind a row, at " << i;
    return;
  }
}

struct Rows {
  std::int64_t rows, width;
};
constexpr Rows row_shapes[] = {{1, 7168}, {4, 7168},  {1000, 896}, {3, 100},   {5, 33},
                               {2, 1},    {2, 16384}, {2, 32768},  {1, 40000}, {1000, 7}};

class Elementwise : public DeviceTest {};

TEST_F(Elementwise, NormWithAndWithoutResidual) {
  for (const Real real : reals)
    for (const auto [rows, width] : row_shapes) {
      const std::string what = text("rms_norm", real, {rows, width});
      const std::vector<float> in = numbers(real, rows * width, 1, 3);
      const std::vector<float> kept = numbers(real, rows * width, 2, 3);
      const std::vector<float> gain = numbers(real, width, 3);
      const Values d_in(real, in), d_kept(real, kept), d_gain(real, gain);
      const Values plain(real, in.size()), summed(real, in.size()), own(real, in.size()), copy(real, in.size());
      NormCall call{.in = d_in.get(), .in_stride = width, .gain = d_gain.get(), .out = plain.get()};
      call.out_stride = width, call.rows = rows, call.width = width;
      rms_norm(call, real, nullptr);
      expect_close(what, real, plain.back(), normed_rows(in, gain), 1e-10);
      call.residual = d_kept.get(), call.out = summed.get();
      call.copy_residual = copy.get(), call.copy_stride = width;
      rms_norm(call, real, nullptr);
      const std::vector<float> sum = sums(real, kept, in);
      expect_same(what + " residual", d_kept.back(), sum);
      expect_same(what + " copy of the residual", copy.back(), sum);
      expect_close(what + " + residual", real, summed.back(), normed_rows(sum, gain), 1e-10);
      call.in = nullptr, call.out = own.get(), call.copy_residual = nullptr;
      rms_norm(call, real, nullptr);
      expect_same(what + " residual that is only read", d_kept.back(), sum);
      expect_same(what + " of the residual alone", own.back(), summed.back());
    }
}

TEST_F(Elementwise, NormOfPartsInPlaceAndOfChosenRows) {
  for (const Real real : reals)
    for (const std::int64_t width : {128, 33}) {
      const std::int64_t rows = 5, parts = 3, stride = 4 * width;  // one part of each row is none of the norm's
      const std::vector<float> in = numbers(real, rows * stride, 4, 2);
      const std::vector<float> gain = numbers(real, width, 5);
      const Values d_in(real, in), d_gain(real, gain);
      NormCall call{.in = d_in.get(), .in_stride = stride, .gain = d_gain.get(), .out = d_in.get()};
      call.out_stride = stride, call.rows = rows, call.width = width, call.parts = parts;
      rms_norm(call, real, nullptr);
      const std::vector<float> got = d_in.back();
      const std::string what = text("rms_norm of parts", real, {rows, parts, width});
      expect_close(what, real, dense(got, stride, parts * width), normed_rows(dense(in, stride, parts * width), gain),
                   1e-10);
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = parts * width; c < stride; ++c)
          ASSERT_EQ(got[at(r * stride + c)], in[at(r * stride + c)])
              << what << ": touched row " << r << " column " << c;

      const std::vector<std::int32_t> from = {4, 0, 4};
      const std::vector<float> kept = numbers(real, rows * width, 6);
      const Values d_kept(real, kept), out(real, from.size() * at(width + 8));
      const OnDevice<std::int32_t> d_from(from);
      NormCall chosen{.residual = d_kept.get(), .gain = d_gain.get(), .out = out.get()};
      chosen.out_stride = width + 8, chosen.rows = 3, chosen.width = width, chosen.from_row = d_from.get();
      rms_norm(chosen, real, nullptr);
      std::vector<double> expected(from.size() * at(width));
      for (std::size_t r = 0; r < from.size(); ++r) normed(&kept[at(from[r] * width)], gain, &expected[r * at(width)]);
      expect_close(text("rms_norm of chosen rows", real, {width}), real, dense(out.back(), width + 8, width), expected,
                   1e-10);
      expect_gaps("rms_norm of chosen rows", out, width + 8, width);
    }
}

TEST_F(Elementwise, NormOfARowDoesNotDependOnTheOthers) {
  const std::int64_t rows = 6, width = 7168;
  const std::vector<float> in = numbers(Real::f32, rows * width, 7);
  const Values d_in(Real::f32, in), gain(Real::f32, numbers(Real::f32, width, 8)), all(Real::f32, in.size());
  NormCall call{.in = d_in.get(), .in_stride = width, .gain = gain.get(), .out = all.get()};
  call.out_stride = width, call.rows = rows, call.width = width;
  rms_norm(call, Real::f32, nullptr);
  const Values one(Real::f32, at(width));
  call.in = d_in.at(5 * width), call.out = one.get(), call.rows = 1;
  rms_norm(call, Real::f32, nullptr);
  const std::vector<float> both = all.back();
  expect_same("last row alone", one.back(), std::vector<float>(both.end() - width, both.end()));
}

TEST_F(Elementwise, NormRefusesCallsWithoutMeaning) {
  NormCall nothing{.rows = 1, .width = 8};
  EXPECT_THROW(rms_norm(nothing, Real::f32, nullptr), std::invalid_argument);
  const Values some(Real::f32, 64);
  NormCall parts{.in = some.get(), .residual = some.get(), .rows = 1, .width = 8, .parts = 2};
  EXPECT_THROW(rms_norm(parts, Real::f32, nullptr), std::invalid_argument);
}

TEST_F(Elementwise, AddRows) {
  for (const Real real : reals)
    for (const std::int64_t count : {1, 33, 7168, 1000 * 896}) {
      const std::vector<float> a = numbers(real, count, 9), b = numbers(real, count, 10);
      const Values to(real, a), from(real, b);
      add_rows(to.get(), from.get(), count, real, nullptr);
      expect_same(text("add_rows", real, {count}), to.back(), sums(real, a, b));
    }
}

TEST_F(Elementwise, Gated) {
  for (const Real real : reals)
    for (const auto [rows, width] : {Rows{1, 2304}, {32, 256}, {4, 360}, {3, 33}, {1000, 100}, {70000, 8}}) {
      std::vector<float> in = numbers(real, rows * 2 * width, 11, 8);
      in[0] = -200;  // exp overflows
      std::vector<double> expected;
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < width; ++c) {
          const double gate = exact(in[at(2 * r * width + c)]);
          expected.push_back(gate / (1 + std::exp(-gate)) * exact(in[at((2 * r + 1) * width + c)]));
        }
      const Values d_in(real, in), out(real, expected.size());
      gated(d_in.get(), out.get(), rows, width, real, nullptr);
      expect_close(text("gated", real, {rows, width}), real, out.back(), expected);
    }
}

std::uint16_t half_bits(int eighths) {  // k / 8 for 8 <= k < 16: 1.0 to below 2.0
  return static_cast<std::uint16_t>(0x3C00 + (eighths - 8) * 128);
}

TEST_F(Elementwise, EmbedOfEachFormatAndOfOtherRanks) {
  const std::int64_t rows = 10, first = 30;
  const std::vector<std::int32_t> tokens = {30, 39, 29, 40, 33, 0};
  const OnDevice<std::int32_t> d_tokens(tokens);
  for (const Real real : reals)
    for (const DType type : {DType::f32, DType::bf16, DType::f16})
      for (const std::int64_t width : {7168, 33}) {
        const std::int64_t stride = width + 16;
        std::vector<float> table;
        std::vector<std::uint16_t> halves;
        for (std::int64_t i = 0; i < rows * width; ++i) {
          const int eighths = static_cast<int>(8 + (i + i / width) % 8);
          table.push_back(static_cast<float>(eighths) / 8);
          halves.push_back(half_bits(eighths));
        }
        if (type == DType::f32) table[0] = 1.2345678F;
        const Values floats(type == DType::bf16 ? Real::bf16 : Real::f32, table);
        const OnDevice<std::uint16_t> d_halves(halves);
        StoredMatrix stored{.format = {.dtype = type}, .rows = rows, .cols = width};
        stored.values = type == DType::f16 ? static_cast<void*>(d_halves.get()) : floats.get();
        const Values out(real, tokens.size() * at(stride));
        embed(stored, first, d_tokens.get(), static_cast<std::int64_t>(tokens.size()), out.get(), stride, real,
              nullptr);
        std::vector<float> expected;
        for (const std::int32_t token : tokens)
          for (std::int64_t c = 0; c < width; ++c) {
            const bool held = token >= first && token < first + rows;
            const float v = held ? table[at((token - first) * width + c)] : 0;
            expected.push_back(real == Real::f32 ? v : host::rounded(v, DType::bf16));
          }
        const std::string what = text("embed", real, {width}) + " of " + std::string(specstep::name_of(type));
        expect_same(what, dense(out.back(), stride, width), expected);
        expect_gaps(what, out, stride, width);
      }
  const Values none(Real::f32, 64);
  StoredMatrix packed{.format = {.dtype = DType::int4, .group = 32}, .values = none.get(), .rows = 1, .cols = 32};
  EXPECT_THROW(embed(packed, 0, d_tokens.get(), 1, none.get(), 32, Real::f32, nullptr), std::invalid_argument);
  packed.format = {.dtype = DType::fp8};
  EXPECT_THROW(embed(packed, 0, d_tokens.get(), 1, none.get(), 32, Real::f32, nullptr), std::invalid_argument);
}

TEST_F(Elementwise, Combine) {
  for (const Real real : reals)
    for (const bool shared : {false, true})
      for (const auto& [tokens, top_k, hidden] :
           {std::array<std::int64_t, 3>{4, 8, 7168}, {1, 1, 100}, {3, 11, 33}, {1000, 4, 896}}) {
        const std::vector<float> rows = numbers(real, tokens * top_k * hidden, 12);
        const std::vector<float> weights = numbers(Real::f32, tokens * top_k, 13);
        const std::vector<float> other = numbers(real, tokens * hidden, 14);
        std::vector<double> expected;
        for (std::int64_t t = 0; t < tokens; ++t)
          for (std::int64_t c = 0; c < hidden; ++c) {
            double sum = shared ? exact(other[at(t * hidden + c)]) : 0;
            for (std::int64_t i = t * top_k; i < (t + 1) * top_k; ++i)
              sum += exact(weights[at(i)]) * exact(rows[at(i * hidden + c)]);
            expected.push_back(sum);
          }
        const Values d_rows(real, rows), d_shared(real, other), out(real, expected.size());
        const OnDevice<float> d_weights(weights);
        combine({d_rows.get(), d_weights.get(), shared ? d_shared.get() : nullptr, out.get(), tokens, top_k, hidden},
                real, nullptr);
        expect_close(text("combine", real, {tokens, top_k, hidden, shared}), real, out.back(), expected);
      }
}

}  // namespace
}  // namespace specstep::cuda
