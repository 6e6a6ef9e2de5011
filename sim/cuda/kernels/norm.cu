// Norms, the residual sum, and the gated activation.
#include <stdexcept>

#include "sim/cuda/kernels/early.cuh"
#include "sim/cuda/kernels/elementwise.h"
#include "sim/cuda/kernels/rows.cuh"

namespace specstep::cuda {

namespace {

constexpr int most_threads = 1024;
constexpr float epsilon = 1e-6F;  // as in sim/host/kernels.cpp

/// N values of the row to norm from column `col` on: the input, or the residual with the input added, which is written
/// back rounded, and copied where asked.
template <class T, int N>
__device__ Pack<T, N> load_summed(const NormCall& call, std::int64_t in_at, std::int64_t row, std::int64_t col) {
  const T* in = static_cast<const T*>(call.in);
  T* residual = static_cast<T*>(call.residual);
  const std::int64_t kept = row * call.width + col;
  Pack<T, N> sum = residual ? load<T, N>(residual + kept) : load<T, N>(in + in_at + col);
  if (residual && in) {
    const Pack<T, N> added = load<T, N>(in + in_at + col);
#pragma unroll
    for (int i = 0; i < N; ++i) sum.at[i] = from_float<T>(to_float(sum.at[i]) + to_float(added.at[i]));
    store<T, N>(residual + kept, sum);
  }
  if (call.copy_residual) store<T, N>(static_cast<T*>(call.copy_residual) + blockIdx.x * call.copy_stride + col, sum);
  return sum;
}

template <class T, int N>
__device__ void store_scaled(T* out, const Pack<T, N>& values, float scale, const Pack<T, N>& gain) {
  Pack<T, N> pack;
#pragma unroll
  for (int i = 0; i < N; ++i) pack.at[i] = from_float<T>(to_float(values.at[i]) * scale * to_float(gain.at[i]));
  store<T, N>(out, pack);
}

template <class T, int N>
__device__ float square(const Pack<T, N>& values) {
  float sum = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) sum += to_float(values.at[i]) * to_float(values.at[i]);
  return sum;
}

struct Place {
  std::int64_t row;  // of the input and the residual
  std::int64_t in, out;
};
__device__ Place place_of(const NormCall& call) {
  const std::int64_t row = call.from_row ? call.from_row[blockIdx.x] : blockIdx.x;
  const std::int64_t part = blockIdx.y * call.width;
  return {row, row * call.in_stride + part, blockIdx.x * call.out_stride + part};
}
__device__ float scale_of(float squares, std::int64_t width) {
  return 1.0F / sqrtf(squares / static_cast<float>(width) + epsilon);
}

/// A block holds a row: each thread keeps P packs in registers, with their gains, while the block sums the squares.
template <class T, int N, int P>
__global__ void __launch_bounds__(most_threads) norm_row(NormCall call) {
  __shared__ float sums[32];
  const T* gain = static_cast<const T*>(call.gain);
  const std::int64_t packs = call.width / N;
  Pack<T, N> values[P];
  Pack<T, N> gains[P];
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const std::int64_t pack = p * blockDim.x + threadIdx.x;
    if (pack < packs) gains[p] = load<T, N>(gain + pack * N);
  }
  wait_for_predecessor();
  const Place at = place_of(call);
  float sum = 0;
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const std::int64_t pack = p * blockDim.x + threadIdx.x;
    if (pack >= packs) continue;
    values[p] = load_summed<T, N>(call, at.in, at.row, pack * N);
    sum += square(values[p]);
  }
  const float scale = scale_of(block_sum(sum, sums), call.width);
  T* out = static_cast<T*>(call.out) + at.out;
#pragma unroll
  for (int p = 0; p < P; ++p) {
    const std::int64_t pack = p * blockDim.x + threadIdx.x;
    if (pack < packs) store_scaled<T, N>(out + pack * N, values[p], scale, gains[p]);
  }
}

/// Rows of any width and alignment: values are read again for the second pass.
template <class T>
__global__ void __launch_bounds__(most_threads) norm_any(NormCall call) {
  __shared__ float sums[32];
  wait_for_predecessor();
  const Place at = place_of(call);
  const T* gain = static_cast<const T*>(call.gain);
  float sum = 0;
  for (std::int64_t c = threadIdx.x; c < call.width; c += blockDim.x)
    sum += square(load_summed<T, 1>(call, at.in, at.row, c));
  const float scale = scale_of(block_sum(sum, sums), call.width);
  const T* normed = call.residual ? static_cast<const T*>(call.residual) + at.row * call.width
                                  : static_cast<const T*>(call.in) + at.in;
  T* out = static_cast<T*>(call.out) + at.out;
  for (std::int64_t c = threadIdx.x; c < call.width; c += blockDim.x)
    store_scaled(out + c, load<T, 1>(normed + c), scale, load<T, 1>(gain + c));
}

template <class T>
void launch_norm(const NormCall& call, cudaStream_t stream) {
  constexpr int n = full_pack<T>;
  const dim3 grid(static_cast<unsigned>(call.rows), static_cast<unsigned>(call.parts));
  const std::int64_t packs = call.width / n;
  const bool fits = packs_fit(n, sizeof(T), {call.width, call.in_stride, call.out_stride, call.copy_stride},
                              {call.in, call.residual, call.gain, call.out, call.copy_residual});
  if (!fits || packs > 4 * most_threads)
    launch_early(norm_any<T>, {grid, threads_for(call.width, most_threads), 0, stream}, call);
  else if (packs <= most_threads)
    launch_early(norm_row<T, n, 1>, {grid, threads_for(packs, most_threads), 0, stream}, call);
  else if (packs <= 2 * most_threads)
    launch_early(norm_row<T, n, 2>, {grid, threads_for((packs + 1) / 2, most_threads), 0, stream}, call);
  else
    launch_early(norm_row<T, n, 4>, {grid, threads_for((packs + 3) / 4, most_threads), 0, stream}, call);
}

template <class T, int N>
__global__ void add_values(T* residual, const T* in, std::int64_t packs) {
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (pack >= packs) return;
  Pack<T, N> sum = load<T, N>(residual + pack * N);
  const Pack<T, N> added = load<T, N>(in + pack * N);
#pragma unroll
  for (int i = 0; i < N; ++i) sum.at[i] = from_float<T>(to_float(sum.at[i]) + to_float(added.at[i]));
  store<T, N>(residual + pack * N, sum);
}

template <class T, int N>
__global__ void gate_rows(const T* in, T* out, std::int64_t width) {
  const std::int64_t col = (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  wait_for_predecessor();
  if (col >= width) return;
  const T* row = in + blockIdx.x * 2 * width + col;
  const Pack<T, N> gate = load<T, N>(row);
  const Pack<T, N> up = load<T, N>(row + width);
  Pack<T, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const float g = to_float(gate.at[i]);
    result.at[i] = from_float<T>(g / (1.0F + expf(-g)) * to_float(up.at[i]));
  }
  store<T, N>(out + blockIdx.x * width + col, result);
}

}  // namespace

void rms_norm(const NormCall& call, Real real, cudaStream_t stream) {
  if (call.rows == 0) return;
  if (!call.in && !call.residual) throw std::invalid_argument("rms_norm: neither an input nor a residual");
  if (call.parts > 1 && (call.residual || call.copy_residual))
    throw std::invalid_argument("rms_norm: a residual has no parts");
  with_real(real, [&]<class T>(T) { launch_norm<T>(call, stream); });
}

void add_rows(void* residual, const void* in, std::int64_t values, Real real, cudaStream_t stream) {
  if (values == 0) return;
  constexpr int threads = 256;
  with_real(real, [&]<class T>(T) {
    constexpr int n = full_pack<T>;
    auto* to = static_cast<T*>(residual);
    const auto* from = static_cast<const T*>(in);
    if (packs_fit(n, sizeof(T), {values}, {residual, in}))
      add_values<T, n><<<blocks_for(values / n, threads), threads, 0, stream>>>(to, from, values / n);
    else
      add_values<T, 1><<<blocks_for(values, threads), threads, 0, stream>>>(to, from, values);
  });
  comm::check(cudaGetLastError(), "add_rows");
}

void gated(const void* in, void* out, std::int64_t rows, std::int64_t width, Real real, cudaStream_t stream) {
  if (rows == 0 || width == 0) return;
  with_real(real, [&]<class T>(T) {
    constexpr int n = full_pack<T>;
    const auto* from = static_cast<const T*>(in);
    auto* to = static_cast<T*>(out);
    const bool fits = packs_fit(n, sizeof(T), {width}, {in, out});
    const std::int64_t packs = fits ? width / n : width;
    const unsigned threads = threads_for(packs, 256);
    const dim3 grid(static_cast<unsigned>(rows), blocks_for(packs, threads));
    if (fits)
      launch_early(gate_rows<T, n>, {grid, threads, 0, stream}, from, to, width);
    else
      launch_early(gate_rows<T, 1>, {grid, threads, 0, stream}, from, to, width);
  });
}

}  // namespace specstep::cuda
