// Which kernel a product takes, and the plain one: any format, fp32 sums without tensor cores.
#include <bit>
#include <string>

#include "model/base/error.h"
#include "sim/cuda/kernels/product.h"
#include "sim/cuda/kernels/product_formats.h"
#include "sim/cuda/kernels/product_launch.cuh"

namespace specstep::cuda {

namespace {

constexpr int plain_warps = 8, plain_rows = 4;

__device__ float to_float(float v) { return v; }
__device__ float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }

/// A warp for each row of the matrix, over all columns, four rows of the input at once.
template <class Value>
__global__ void __launch_bounds__(32 * plain_warps) multiply_plain(const ProductJob job) {
  extern __shared__ __align__(16) unsigned char shared[];
  wait_for_predecessor();
  BlockWork work(job, reinterpret_cast<int2*>(shared));
  work.read();
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  for (int i = work.begin(); i < work.end(); ++i) {
    const Stretch item = work.from(i);
    const std::int64_t row = static_cast<std::int64_t>(item.begin) * plain_warps + warp;
    if (row >= job.weight.rows) continue;
    for (int first = item.first; first < item.end; first += plain_rows) {
      const int rows = min(plain_rows, item.end - first);
      const Value* in[plain_rows];
      for (int r = 0; r < plain_rows; ++r)
        in[r] = static_cast<const Value*>(job.in) + work.pair_at(first + min(r, rows - 1)) / job.share * job.in_stride;
      float sums[plain_rows] = {};
      for (std::int64_t c = lane; c < job.weight.cols; c += 32) {
        const float w = value_at(job.weight, item.expert, row, c);
        for (int r = 0; r < plain_rows; ++r) sums[r] = fmaf(w, to_float(in[r][c]), sums[r]);
      }
      for (int r = 0; r < plain_rows; ++r) {
        for (int offset = 16; offset > 0; offset /= 2) sums[r] += __shfl_xor_sync(~0U, sums[r], offset);
        if (lane != r || r >= rows) continue;
        const std::int64_t at = work.pair_at(first + r) * job.out_stride + row;
        if (job.f32_out)
          static_cast<float*>(job.out)[at] = sums[r];
        else
          static_cast<__nv_bfloat16*>(job.out)[at] = __float2bfloat16_rn(sums[r]);
      }
    }
  }
}

void launch_plain(ProductJob job, Real real, cudaStream_t stream) {
  job.cap = plain_rows;
  job.row_items = static_cast<int>(ceil_div(job.weight.rows, plain_warps));
  divide_rows(job);
  const PersistentLaunch how{32 * plain_warps, list_bytes(job), stream, items_of(job)};
  real == Real::f32 ? launch_persistent(multiply_plain<float>, job, how)
                    : launch_persistent(multiply_plain<__nv_bfloat16>, job, how);
}

using Multiply = void (*)(const ProductJob& job, double average_rows, cudaStream_t stream);

/// The tensor-core kernel for a format and the type of scales that it is used with, or null.
Multiply multiply_of(const StoredView& w) {
  const bool plain_scale = w.scale == ScaleKind::none || w.scale == ScaleKind::f32;
  switch (w.type) {
    case DType::bf16:
      return multiply_bf16;
    case DType::fp8:
      return plain_scale ? multiply_fp8 : nullptr;
    case DType::int8:
      return plain_scale ? multiply_int8 : nullptr;
    case DType::int4:
      return w.scale == ScaleKind::bf16 ? multiply_int4 : nullptr;
    case DType::nvfp4:
      return multiply_nvfp4;
    case DType::mxfp4:
      return multiply_mxfp4;
    case DType::f32:
    case DType::f16:
      break;
  }
  return nullptr;
}

/// Tensor cores take bf16, rows that can be read by 16 bytes, and scale groups of whole steps.
bool suits_tensor_cores(const StoredView& w, Real real) {
  if (real != Real::bf16 || !multiply_of(w)) return false;
  if (w.type == DType::bf16) return w.cols % 8 == 0;
  if (w.scale == ScaleKind::none) return true;
  return std::has_single_bit(static_cast<std::uint64_t>(w.group)) && w.group % scale_step(w.type) == 0;
}

void launch(const ProductJob& job, double average_rows, Real real, cudaStream_t stream) {
  if (suits_tensor_cores(job.weight, real))
    multiply_of(job.weight)(job, average_rows, stream);
  else
    launch_plain(job, real, stream);
}

std::int32_t narrow(std::int64_t value, const char* what) {
  if (value < 0 || value > 0x3FFFFFFF) throw Error(std::string("product: too many ") + what);
  return static_cast<std::int32_t>(value);
}

StoredView checked_view(const StoredMatrix& w) {
  narrow(w.rows, "rows of a matrix");
  narrow(w.cols, "columns of a matrix");
  return view_of(w);
}

}  // namespace

void grouped_product(const GroupedProduct& call, Real real, cudaStream_t stream) {
  const StoredMatrix& w = call.weight;
  const auto width = static_cast<std::size_t>(bytes_of(real));
  if (call.clear && call.pairs > 0 && w.rows > 0)
    comm::check(
        cudaMemset2DAsync(call.out, static_cast<std::size_t>(call.out_stride) * width, 0,
                          static_cast<std::size_t>(w.rows) * width, static_cast<std::size_t>(call.pairs), stream),
        "product: clear");
  if (call.pairs == 0 || w.rows == 0 || w.count == 0) return;
  if (!call.grouping.spans || !call.grouping.pair_of) throw Error("product: a grouping without spans or pairs");
  ProductJob job;
  job.in = call.in, job.in_stride = call.in_stride;
  job.share = narrow(call.share, "rows that share one");
  job.out = call.out, job.out_stride = call.out_stride, job.f32_out = real == Real::f32;
  job.pair_of = call.grouping.pair_of;
  job.settled = call.settled;
  job.spans = reinterpret_cast<const int2*>(call.grouping.spans);
  job.max_slots = narrow(std::min(w.count, call.pairs), "experts");
  job.pairs = narrow(call.pairs, "pairs");
  job.weight = checked_view(w);
  launch(job, static_cast<double>(call.pairs) / static_cast<double>(w.count), real, stream);
}

void dense_product(const DenseProduct& call, Real real, cudaStream_t stream) {
  const StoredMatrix& w = call.weight;
  if (call.m == 0 || w.rows == 0) return;
  ProductJob job;
  job.in = call.in, job.in_stride = call.in_stride;
  job.out = call.out, job.out_stride = call.out_stride, job.f32_out = call.f32_out || real == Real::f32;
  job.dense_rows = narrow(call.m, "rows");
  job.weight = checked_view(w);
  launch(job, static_cast<double>(call.m), real, stream);
}

}  // namespace specstep::cuda
