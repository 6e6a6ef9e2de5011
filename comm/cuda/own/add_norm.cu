#include <algorithm>

#include "comm/cuda/check.h"
#include "comm/cuda/own/norm_epilogue.cuh"

namespace specstep::comm {

namespace {

constexpr unsigned most_threads = 1024;

/// A block takes a row.
template <class Values>
__global__ void __launch_bounds__(most_threads)
    add_norm_kernel(const void* values, const __grid_constant__ RowNorm norm) {
  __shared__ float parts[2 * most_cluster * most_row_warps];
  NormEpilogue<Values, 1, false> epilogue(norm, parts);
  const std::uint32_t row = blockIdx.x;
  const std::uint32_t packs = (norm.row_bytes + sizeof(Pack) - 1) / sizeof(Pack);
  const auto* summed = static_cast<const std::byte*>(values) + static_cast<std::size_t>(row) * norm.row_bytes;
  if (threadIdx.x < packs) epilogue.expect(0, row, threadIdx.x);
  for (std::uint32_t p = threadIdx.x; p < packs; p += blockDim.x)
    epilogue.add(0, p == threadIdx.x, row, p, load_values(summed, norm.row_bytes, p));
  epilogue.finish(row, [&](auto visit) {
    for (std::uint32_t p = threadIdx.x; p < packs; p += blockDim.x) visit(0, p == threadIdx.x, p);
  });
}

template <class Values, int>
struct AddNorm {
  static void launch(const void* values, const RowNorm& norm, unsigned threads, cudaStream_t stream) {
    add_norm_kernel<Values><<<norm.rows, threads, 0, stream>>>(values, norm);
  }
};

constexpr int alone = 1;  // no other rank takes part

}  // namespace

void load_add_norm(cudaStream_t stream) {
  const RowNorm nothing;
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32})
    for_values_and_ranks<AddNorm>(dtype, alone, nullptr, nothing, 32U, stream);
  check(cudaGetLastError(), "launching a norm");
}

void add_norm(const FusedNorm& call, cudaStream_t stream) {
  if (call.rows == 0 || call.width == 0) return;
  const RowNorm norm = rows_of(call, 0, call.rows);
  const unsigned packs = (norm.row_bytes + sizeof(Pack) - 1) / sizeof(Pack);
  const unsigned threads = std::clamp((packs + 31) / 32 * 32, 32U, most_threads);
  for_values_and_ranks<AddNorm>(call.dtype, alone, call.values, norm, threads, stream);
  check(cudaGetLastError(), "launching a norm");
}

}  // namespace specstep::comm
