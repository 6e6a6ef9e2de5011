// Matrices in device memory, as the formats of a stack store them, and where their numbers come from.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "model/base/dtype.h"

namespace specstep::cuda {

/// Type of activations and of everything computed: bf16 as engines do, f32 to compare with the host.
enum class Real { f32, bf16 };
constexpr std::int64_t bytes_of(Real real) { return real == Real::f32 ? 4 : 2; }

/// `count` matrices [rows, cols] of one weight. f32, bf16 and f16 lie row by row. One-byte and four-bit codes lie in
/// tiles of 512 bytes, in the order in which a warp feeds them to the tensor cores, and scales beside them
/// (product_layout.h); rows and columns are padded to whole tiles. value_at of formats.cuh reads one value of any of
/// them. A format of f32 holds plain floats, whatever the stack stores: values already rounded to its format.
struct StoredMatrix {
  WeightFormat format;
  void* values = nullptr;
  void* scales = nullptr;
  float whole_scale = 1;  // of all values: whole_scale(format, bound)
  std::int64_t count = 1, rows = 0, cols = 0;
  std::int64_t phase = 0;  // columns of the first column's scale group that other ranks hold: first column % group
};

/// The scale of a whole matrix whose values are at most `bound`: the second level of nvfp4, the one scale of fp8 and
/// int8 without groups, 1 for all others. As sim/host/formats.h makes it.
float whole_scale(const WeightFormat& format, float bound);

/// Device bytes of a stored matrix: values and scales, each a multiple of 256. Enough for any phase.
struct StoredBytes {
  std::int64_t values = 0;
  std::int64_t scales = 0;
};
StoredBytes stored_bytes(const WeightFormat& format, std::int64_t count, std::int64_t rows, std::int64_t cols);

/// What to fill a matrix with: the numbers of sim/weights, made on the device. All pointers are device memory.
struct Fill {
  std::uint32_t key[2] = {0, 0};  // of the seed
  std::uint32_t stream = 0;       // name of the matrix among all of the model
  float bound = 1;                // values are uniform in [-bound, bound); gains 1 + 0.1 u
  bool gain = false;
  const std::int64_t* matrices = nullptr;    // [count]: which of the whole set
  const std::int64_t* whole_rows = nullptr;  // [rows]: row of the whole matrix, -1: zeros
  std::int64_t first_col = 0;
  std::int64_t whole_cols = 0;
};

/// Bit for bit what host::make_weight gives, in the storage of `target`. `rounded_to`: the stack's format; where the
/// target holds floats (Real::f32), values are rounded to it first. Throws Error where target.phase or
/// target.whole_scale do not belong to `from`, or where the format cannot be stored on a device.
void fill(const StoredMatrix& target, const Fill& from, const WeightFormat& rounded_to, cudaStream_t stream);

/// Any matrix [rows, cols] with numbers of the same kind, for weights that only need their bytes (shared pools).
void fill_any(const StoredMatrix& target, std::uint64_t seed, cudaStream_t stream);

/// out[count * rows * cols] as Real: a stored matrix unpacked.
void unpack(const StoredMatrix& from, void* out, Real real, cudaStream_t stream);

}  // namespace specstep::cuda
