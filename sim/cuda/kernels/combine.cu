// The weighted sum of a token's experts.
#include "sim/cuda/kernels/early.cuh"
#include "sim/cuda/kernels/elementwise.h"
#include "sim/cuda/kernels/rows.cuh"

namespace specstep::cuda {

namespace {

template <class T, int N>
__global__ void combine_rows(CombineCall call) {
  const std::int64_t col = (static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * N;
  wait_for_predecessor();
  if (col >= call.hidden) return;
  const std::int64_t token = blockIdx.x;
  float sum[N] = {};
  if (call.shared) {
    const Pack<T, N> shared = load<T, N>(static_cast<const T*>(call.shared) + token * call.hidden + col);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] = to_float(shared.at[i]);
  }
  const float* weights = call.weights + token * call.top_k;
  const T* rows = static_cast<const T*>(call.expert_out) + token * call.top_k * call.hidden + col;
#pragma unroll 8
  for (std::int64_t choice = 0; choice < call.top_k; ++choice) {
    const float weight = weights[choice];
    const Pack<T, N> row = load<T, N>(rows + choice * call.hidden);
#pragma unroll
    for (int i = 0; i < N; ++i) sum[i] += weight * to_float(row.at[i]);
  }
  Pack<T, N> result;
#pragma unroll
  for (int i = 0; i < N; ++i) result.at[i] = from_float<T>(sum[i]);
  store<T, N>(static_cast<T*>(call.out) + token * call.hidden + col, result);
}

}  // namespace

void combine(const CombineCall& call, Real real, cudaStream_t stream) {
  if (call.tokens == 0) return;
  with_real(real, [&]<class T>(T) {
    constexpr int n = full_pack<T>;
    const bool fits = packs_fit(n, sizeof(T), {call.hidden}, {call.expert_out, call.shared, call.out});
    const std::int64_t packs = fits ? call.hidden / n : call.hidden;
    const unsigned threads = threads_for(packs, 128);  // small blocks: a few tokens still fill many processors
    const dim3 grid(static_cast<unsigned>(call.tokens), blocks_for(packs, threads));
    if (fits)
      launch_early(combine_rows<T, n>, {grid, threads, 0, stream}, call);
    else
      launch_early(combine_rows<T, 1>, {grid, threads, 0, stream}, call);
  });
}

}  // namespace specstep::cuda
