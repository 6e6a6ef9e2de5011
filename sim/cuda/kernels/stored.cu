// Filling matrices from the generator, and reading them back.
#include <algorithm>
#include <cmath>
#include <string>

#include "comm/cuda/check.h"
#include "model/base/error.h"
#include "sim/cuda/kernels/formats.cuh"
#include "sim/cuda/kernels/stored.h"
#include "sim/host/philox.h"

namespace specstep::cuda {

namespace {

constexpr int threads = 256;

/// Numbers of one row of a whole matrix.
class Numbers {
 public:
  __device__ Numbers(const Fill& from, std::int64_t matrix, std::int64_t whole_row)
      : key_{from.key[0], from.key[1]},
        row_(static_cast<std::uint32_t>(whole_row)),
        matrix_(static_cast<std::uint32_t>(from.matrices[matrix])),
        stream_(from.stream),
        bound_(from.bound),
        gain_(from.gain) {}

  /// Products and sums each rounded, as on the host: no fused multiply-add.
  __device__ float at(std::int64_t col) {
    if (col / 4 != quad_) {
      quad_ = col / 4;
      words_ = host::philox({static_cast<std::uint32_t>(quad_), row_, matrix_, stream_}, key_);
    }
    const std::uint32_t low = col & 1 ? words_[1] : words_[0];
    const std::uint32_t high = col & 1 ? words_[3] : words_[2];
    const float u = host::signed_unit(col & 2 ? high : low);
    return gain_ ? __fadd_rn(1.0F, __fmul_rn(0.1F, u)) : __fmul_rn(bound_, u);
  }

 private:
  host::PhiloxKey key_;
  std::uint32_t row_, matrix_, stream_;
  float bound_;
  bool gain_;
  std::int64_t quad_ = -1;
  host::PhiloxCounter words_{};
};

/// Largest code of a scaled type.
constexpr float largest_code(DType type) {
  switch (type) {
    case DType::int8:
      return 127;
    case DType::int4:
      return 7;
    case DType::fp8:
      return 448;
    case DType::nvfp4:
    case DType::mxfp4:
      return 6;
    case DType::f32:
    case DType::bf16:
    case DType::f16:
      break;
  }
  return 0;
}

/// Stored code of the scale of a group whose largest magnitude is `most`; 0 for a group of zeros.
__device__ std::uint32_t scale_code(float most, DType type, ScaleKind kind, float whole) {
  if (most == 0) return 0;
  if (kind == ScaleKind::e8m0) return static_cast<std::uint32_t>(max(ilogbf(most) - 2 + 127, 1));
  if (type == DType::nvfp4) return e4m3_code(most / 6.0F / whole);
  const float scale = most / largest_code(type);
  switch (kind) {
    case ScaleKind::f32:
      return __float_as_uint(scale);
    case ScaleKind::bf16:
      return __bfloat16_as_ushort(__float2bfloat16_rn(scale));
    case ScaleKind::f16:
      return __half_as_ushort(half_of(scale));
    default:
      return e4m3_code(scale);
  }
}

__device__ void put_scale(void* scales, std::int64_t at, std::uint32_t code, ScaleKind kind) {
  switch (scale_bytes(kind)) {
    case 4:
      static_cast<std::uint32_t*>(scales)[at] = code;
      return;
    case 2:
      static_cast<std::uint16_t*>(scales)[at] = static_cast<std::uint16_t>(code);
      return;
    default:
      static_cast<std::uint8_t*>(scales)[at] = static_cast<std::uint8_t>(code);
  }
}

__device__ float scale_value(std::uint32_t code, ScaleKind kind) { return load_scale(&code, 0, kind); }

/// Scale groups of a matrix, each worked on by a few neighbouring threads of a warp.
struct GroupWork {
  StoredView target;
  Fill from;
  DType type;  // that values are rounded to
  ScaleKind scale;
  std::int64_t group, groups, phase;
  float whole;
  std::int64_t padded_rows;
  int lanes;
};

/// Makes the scale of each group from all of its numbers, also those that other ranks hold, and stores it; a target of
/// floats gets the rounded values themselves.
__global__ void __launch_bounds__(threads) fill_groups(const GroupWork w) {
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  const std::int64_t index = thread / w.lanes;
  const std::int64_t group = index % w.groups, row = index / w.groups % w.padded_rows;
  const std::int64_t matrix = index / w.groups / w.padded_rows;
  const bool inside = matrix < w.target.count && row < w.target.rows;
  const std::int64_t whole_row = inside ? w.from.whole_rows[row] : -1;
  const std::int64_t begin = w.from.first_col - w.phase + group * w.group;
  const std::int64_t end = min(begin + w.group, w.from.whole_cols);
  const std::int64_t last = w.from.first_col + w.target.cols;  // behind this part
  const std::int64_t first_quad = begin / 4 + thread % w.lanes;
  float most = 0;
  Numbers numbers(w.from, inside ? matrix : 0, whole_row);
  if (whole_row >= 0 && begin < last)
    for (std::int64_t c4 = first_quad * 4; c4 < end; c4 += 4 * w.lanes)
      for (std::int64_t c = max(c4, begin); c < min(c4 + 4, end); ++c) most = fmaxf(most, fabsf(numbers.at(c)));
  for (int offset = w.lanes / 2; offset > 0; offset /= 2) most = fmaxf(most, __shfl_xor_sync(~0U, most, offset));
  if (matrix >= w.target.count) return;
  const std::uint32_t code = scale_code(most, w.type, w.scale, w.whole);
  if (w.target.type != DType::f32) {
    const std::int64_t each = w.padded_rows * w.groups;
    if (thread % w.lanes == 0)
      put_scale(w.target.scales, matrix * each + scale_place(w.groups, row, group), code, w.scale);
    return;
  }
  if (!inside) return;
  const float scale = scale_value(code, w.scale) * w.whole;
  float* out = static_cast<float*>(w.target.values) + (matrix * w.target.rows + row) * w.target.cols;
  for (std::int64_t c4 = first_quad * 4; c4 < min(end, last); c4 += 4 * w.lanes)
    for (std::int64_t c = max(max(c4, begin), w.from.first_col); c < min(min(c4 + 4, end), last); ++c) {
      const bool some = whole_row >= 0 && scale > 0;
      out[c - w.from.first_col] = some ? value_of(code_of(numbers.at(c) / scale, w.type), w.type) * scale : 0.0F;
    }
}

__device__ void put_plain(const StoredView& target, std::int64_t at, float v) {
  if (target.type == DType::f32)
    static_cast<float*>(target.values)[at] = v;
  else if (target.type == DType::bf16)
    static_cast<__nv_bfloat16*>(target.values)[at] = __float2bfloat16_rn(v);
  else
    static_cast<__half*>(target.values)[at] = half_of(v);
}

/// Four neighbouring codes of a row into their tile. Four-bit ones share their words with another row's and are added
/// to zeros.
__device__ void put_codes(const StoredView& target, std::uint8_t* tile, int row, int col, const std::uint32_t (&c)[4]) {
  const Layout layout = layout_of(target.type);
  const int place = place_in_tile(layout, row, col);
  if (layout == Layout::bytes) {
    *reinterpret_cast<std::uint32_t*>(tile + place) = c[0] | c[2] << 8 | c[1] << 16 | c[3] << 24;
  } else {
    std::uint32_t all = 0;
    for (int i = 0; i < 4; ++i) all |= scatter_code(target.type, c[i], (place + i / 2 + i % 2 * 4) % 8);
    atomicOr(reinterpret_cast<std::uint32_t*>(tile) + place / 8, all);
  }
}

/// Values of formats whose scales are known: each thread four neighbours of a row, counted from the lead on.
struct ValueWork {
  StoredView target;
  Fill from;
  DType type;   // that values are rounded to
  float whole;  // scale of a target of floats whose format has one for the whole matrix
  std::int64_t padded_rows, quads;
};

__global__ void __launch_bounds__(threads) fill_values(const ValueWork w) {
  const StoredView& target = w.target;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  const std::int64_t col = index % w.quads * 4, row = index / w.quads % w.padded_rows;
  const std::int64_t matrix = index / w.quads / w.padded_rows;
  if (matrix >= target.count) return;
  const std::int64_t whole_row = row < target.rows ? w.from.whole_rows[row] : -1;
  Numbers numbers(w.from, matrix, whole_row);
  std::uint32_t codes[4];
  for (int i = 0; i < 4; ++i) {
    const std::int64_t c = col + i - target.lead;
    const bool some = whole_row >= 0 && c >= 0 && c < target.cols;
    const float v = some ? numbers.at(w.from.first_col + c) : 0.0F;
    if (layout_of(target.type) != Layout::rows) {
      const float scale = some ? scale_at(target, matrix, row, c) : 0.0F;
      codes[i] = code_of(scale > 0 ? v / scale : 0.0F, w.type);
    } else if (row < target.rows && c < target.cols) {
      const bool scaled = layout_of(w.type) != Layout::rows;
      const float kept = scaled ? value_of(code_of(v / w.whole, w.type), w.type) * w.whole : rounded_plain(v, w.type);
      put_plain(target, (matrix * target.rows + row) * target.cols + c, kept);
    }
  }
  if (layout_of(target.type) == Layout::rows) return;
  put_codes(target, tile_at(target, matrix, row, col), static_cast<int>(row % tile_rows),
            static_cast<int>(col % tile_cols(layout_of(target.type))), codes);
}

/// Numbers without a meaning: 16 bytes a thread. Codes of fp8 keep below 2, which leaves out its NaN.
__global__ void __launch_bounds__(threads)
    fill_any_values(const StoredView target, std::int64_t bytes, host::PhiloxKey key, float bound) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index * 16 >= bytes) return;
  host::PhiloxCounter words =
      host::philox({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), 0, 0xFFFFFFFF}, key);
  if (layout_of(target.type) == Layout::rows) {
    const std::int64_t each = target.type == DType::f32 ? 4 : 8, all = target.count * target.rows * target.cols;
    for (std::int64_t i = 0; i < each && index * each + i < all; ++i) {
      const std::uint32_t word = i % 4 == 0 ? words[0] : i % 4 == 1 ? words[1] : i % 4 == 2 ? words[2] : words[3];
      put_plain(target, index * each + i, bound * host::signed_unit(i < 4 ? word : word << 16 | word >> 16));
    }
    return;
  }
  const std::uint32_t kept = target.type == DType::fp8 ? 0xBFBFBFBF : 0xFFFFFFFF;
  static_cast<uint4*>(target.values)[index] =
      make_uint4(words[0] & kept, words[1] & kept, words[2] & kept, words[3] & kept);
}

__global__ void __launch_bounds__(threads) fill_any_scales(const StoredView target, std::int64_t count, float most) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index < count)
    put_scale(target.scales, index, scale_code(most, target.type, target.scale, target.whole_scale), target.scale);
}

__global__ void __launch_bounds__(threads) unpack_values(const StoredView from, void* out, bool floats) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (index >= from.count * from.rows * from.cols) return;
  const float v = value_at(from, index / from.cols / from.rows, index / from.cols % from.rows, index % from.cols);
  if (floats)
    static_cast<float*>(out)[index] = v;
  else
    static_cast<__nv_bfloat16*>(out)[index] = __float2bfloat16_rn(v);
}

unsigned blocks_for(std::int64_t work) {
  const std::int64_t blocks = ceil_div(work, threads);
  if (blocks > 0x7FFFFFFF) throw Error("a weight of " + std::to_string(work) + " pieces is too large for one launch");
  return static_cast<unsigned>(blocks);
}

void require(bool holds, const std::string& otherwise) {
  if (!holds) throw Error("stored matrix: " + otherwise);
}

void check_storable(const StoredMatrix& m) {
  require(scale_kind(m.format) != ScaleKind::unknown, "scales may be f32, bf16, f16 or fp8");
  require(layout_of(m.format.dtype) != Layout::nibbles || m.format.group > 0, "four-bit codes need a scale group");
  const Tiling tiling = tiling_of(m.format, m.rows, m.cols);
  const std::int64_t width = tiling.col_tiles * tile_cols(layout_of(m.format.dtype));
  const std::int64_t lead = lead_of(m.format, m.phase);
  require(tiling.groups == 0 || (m.phase >= 0 && m.phase < m.format.group && lead + m.cols <= width &&
                                 (m.phase - lead + width - 1) / m.format.group < tiling.groups),
          "phase " + std::to_string(m.phase) + " is not one of a part of " + std::to_string(m.cols) +
              " columns in groups of " + std::to_string(m.format.group));
}

std::int64_t value_bytes(const WeightFormat& format, std::int64_t count, std::int64_t rows, std::int64_t cols) {
  if (layout_of(format.dtype) == Layout::rows)
    return count * rows * cols * static_cast<std::int64_t>(bytes_of(format.dtype));
  const Tiling tiling = tiling_of(format, rows, cols);
  return count * tiling.row_tiles * tiling.col_tiles * tile_bytes;
}

std::int64_t scale_count(const StoredMatrix& m) {
  const Tiling tiling = tiling_of(m.format, m.rows, m.cols);
  return m.count * tiling.row_tiles * tile_rows * tiling.groups;
}

void launched(std::string_view what) { comm::check(cudaGetLastError(), what); }

void launch_groups(const StoredMatrix& target, const Fill& from, const WeightFormat& format, cudaStream_t stream) {
  const std::int64_t phase = from.first_col % format.group;
  const bool floats = target.format.dtype == DType::f32;
  const std::int64_t groups =
      floats ? ceil_div(phase + target.cols, format.group) : tiling_of(format, target.rows, target.cols).groups;
  GroupWork work{view_of(target),
                 from,
                 format.dtype,
                 scale_kind(format),
                 format.group,
                 groups,
                 phase,
                 whole_scale(format, from.bound),
                 0,
                 0};
  work.padded_rows = floats ? target.rows : work.target.tiling.row_tiles * tile_rows;
  work.lanes = format.group <= 64 ? 8 : 32;
  fill_groups<<<blocks_for(target.count * work.padded_rows * groups * work.lanes), threads, 0, stream>>>(work);
  launched("fill scales");
}

}  // namespace

StoredBytes stored_bytes(const WeightFormat& format, std::int64_t count, std::int64_t rows, std::int64_t cols) {
  const auto whole = [](std::int64_t bytes) { return ceil_div(bytes, 256) * 256; };
  const std::int64_t scales = scale_count({.format = format, .count = count, .rows = rows, .cols = cols});
  return {whole(value_bytes(format, count, rows, cols)), whole(scales * scale_bytes(scale_kind(format)))};
}

float whole_scale(const WeightFormat& format, float bound) {
  if (format.dtype == DType::nvfp4) return bound / (6.0F * 448.0F);
  const bool scaled = format.dtype == DType::fp8 || format.dtype == DType::int8;
  return scaled && format.group == 0 ? bound / largest_code(format.dtype) : 1.0F;
}

void fill(const StoredMatrix& target, const Fill& from, const WeightFormat& rounded_to, cudaStream_t stream) {
  check_storable(target);
  require(target.format.dtype == DType::f32 || target.format == rounded_to, "stores another format than the stack's");
  require(scale_kind(rounded_to) != ScaleKind::unknown, "scales may be f32, bf16, f16 or fp8");
  require(target.whole_scale == whole_scale(target.format, from.bound), "whole_scale does not belong to the bound");
  if (target.count * target.rows * target.cols == 0) return;
  const bool grouped = scale_kind(rounded_to) != ScaleKind::none;
  const bool floats = target.format.dtype == DType::f32;
  if (grouped) {
    require(floats || target.phase == from.first_col % rounded_to.group, "phase does not belong to the first column");
    launch_groups(target, from, rounded_to, stream);
    if (floats) return;
  }
  ValueWork work{view_of(target),         from, rounded_to.dtype, whole_scale(rounded_to, from.bound), target.rows,
                 ceil_div(target.cols, 4)};
  const Layout layout = layout_of(target.format.dtype);
  if (layout != Layout::rows) {
    work.padded_rows = work.target.tiling.row_tiles * tile_rows;
    work.quads = work.target.tiling.col_tiles * tile_cols(layout) / 4;
  }
  if (layout == Layout::nibbles)
    comm::check(
        cudaMemsetAsync(target.values, 0,
                        static_cast<std::size_t>(value_bytes(target.format, target.count, target.rows, target.cols)),
                        stream),
        "fill values");
  fill_values<<<blocks_for(target.count * work.padded_rows * work.quads), threads, 0, stream>>>(work);
  launched("fill values");
}

void fill_any(const StoredMatrix& target, std::uint64_t seed, cudaStream_t stream) {
  check_storable(target);
  const std::int64_t bytes = value_bytes(target.format, target.count, target.rows, target.cols);
  if (bytes == 0) return;
  const float bound = std::sqrt(3.0F / static_cast<float>(target.cols));  // variance 1 / columns
  const StoredView view = view_of(target);
  fill_any_values<<<blocks_for(ceil_div(bytes, 16)), threads, 0, stream>>>(view, bytes, host::philox_key(seed), bound);
  launched("fill values");
  const std::int64_t scales = scale_count(target);
  if (scales == 0) return;
  // Codes of fp8 are below 2 here, 448 / 2 times smaller than those that fill makes.
  const float most = target.format.dtype == DType::fp8 ? bound * 224 : bound;
  fill_any_scales<<<blocks_for(scales), threads, 0, stream>>>(view, scales, most);
  launched("fill scales");
}

void unpack(const StoredMatrix& from, void* out, Real real, cudaStream_t stream) {
  check_storable(from);
  const std::int64_t values = from.count * from.rows * from.cols;
  if (values == 0) return;
  unpack_values<<<blocks_for(values), threads, 0, stream>>>(view_of(from), out, real == Real::f32);
  launched("unpack");
}

}  // namespace specstep::cuda
