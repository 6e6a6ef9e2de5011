// Rows of the embedding table.
#include <cuda_fp16.h>

#include <stdexcept>
#include <string>

#include "sim/cuda/kernels/elementwise.h"
#include "sim/cuda/kernels/rows.cuh"

namespace specstep::cuda {

__device__ inline float to_float(half value) { return __half2float(value); }

namespace {

struct EmbedRows {
  const void* table;
  std::int64_t first, held, width;
  const std::int32_t* tokens;
  void* out;
  std::int64_t out_stride;
};

template <class From, class To, int N>
__global__ void embed_rows(EmbedRows call) {
  const std::int64_t col = (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  if (col >= call.width) return;
  const std::int64_t row = call.tokens[blockIdx.x] - call.first;
  Pack<To, N> result;
  if (row >= 0 && row < call.held) {
    const Pack<From, N> stored = load<From, N>(static_cast<const From*>(call.table) + row * call.width + col);
#pragma unroll
    for (int i = 0; i < N; ++i) result.at[i] = from_float<To>(to_float(stored.at[i]));
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) result.at[i] = from_float<To>(0.0F);
  }
  store<To, N>(static_cast<To*>(call.out) + blockIdx.x * call.out_stride + col, result);
}

template <class From, class To>
void launch(const EmbedRows& call, std::int64_t count, cudaStream_t stream) {
  constexpr int n = 8;  // 16 bytes of the smaller types, twice that of floats
  const bool fits = packs_fit(n, 2, {call.width, call.out_stride}, {call.table, call.out});
  const std::int64_t packs = fits ? call.width / n : call.width;
  const unsigned threads = threads_for(packs, 256);
  const dim3 grid(static_cast<unsigned>(count), blocks_for(packs, threads));
  if (fits)
    embed_rows<From, To, n><<<grid, threads, 0, stream>>>(call);
  else
    embed_rows<From, To, 1><<<grid, threads, 0, stream>>>(call);
}

template <class From>
void launch_from(const EmbedRows& call, std::int64_t count, Real real, cudaStream_t stream) {
  with_real(real, [&]<class To>(To) { launch<From, To>(call, count, stream); });
}

}  // namespace

void embed(const StoredMatrix& table, std::int64_t first, const std::int32_t* tokens, std::int64_t count, void* out,
           std::int64_t out_stride, Real real, cudaStream_t stream) {
  const EmbedRows call{table.values, first, table.rows, table.cols, tokens, out, out_stride};
  const bool scaled = table.format.group > 0;
  const DType type = table.format.dtype;
  if (scaled || (type != DType::f32 && type != DType::bf16 && type != DType::f16))
    throw std::invalid_argument("embed: a table of type " + std::string(name_of(type)) + (scaled ? " in groups" : "") +
                                "; an embedding is f32, bf16 or f16 without scales");
  if (count == 0) return;
  if (type == DType::f32)
    launch_from<float>(call, count, real, stream);
  else if (type == DType::bf16)
    launch_from<bf16>(call, count, real, stream);
  else
    launch_from<half>(call, count, real, stream);
  comm::check(cudaGetLastError(), "embed");
}

}  // namespace specstep::cuda
