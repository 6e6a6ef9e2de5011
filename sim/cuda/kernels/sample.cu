// Logits to tokens, and which drafted tokens the target keeps.
#include "sim/cuda/kernels/elementwise.h"
#include "sim/cuda/kernels/rows.cuh"

namespace specstep::cuda {

namespace {

constexpr std::int64_t most_parts = 64;  // blocks that share a row
constexpr unsigned part_threads = 256;

/// Parts of a row: as many as fill the GPU with a few rows, one where rows do that alone.
std::int64_t parts_of(std::int64_t rows) { return std::clamp<std::int64_t>(512 / rows, 1, most_parts); }

/// A number that grows with the value, and with a lower index where values are equal. NaN is below everything; the two
/// zeros are equal.
__device__ std::uint64_t rank_of(float value, std::int64_t index) {
  const std::uint32_t bits = __float_as_uint(value == 0.0F ? 0.0F : value);
  const std::uint32_t ordered = bits & 0x80000000U ? ~bits : bits | 0x80000000U;
  const std::uint32_t key = isnan(value) ? 0 : ordered;
  return static_cast<std::uint64_t>(key) << 32 | (0xFFFFFFFFU - static_cast<std::uint32_t>(index));
}
__device__ std::int32_t index_in(std::uint64_t rank) {
  return static_cast<std::int32_t>(0xFFFFFFFFU - static_cast<std::uint32_t>(rank));
}

/// The largest over the block, in thread 0.
__device__ std::uint64_t block_best(std::uint64_t best) {
  __shared__ std::uint64_t of_warp[32];
  for (int step = 16; step > 0; step /= 2) {
    const std::uint64_t other = __shfl_down_sync(all_lanes, best, step);
    best = other > best ? other : best;
  }
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = best;
  __syncthreads();
  if (threadIdx.x == 0)
    for (unsigned w = 1; w < blockDim.x / 32; ++w) best = of_warp[w] > best ? of_warp[w] : best;
  return best;
}

struct Logits {
  const void* values;
  std::int64_t stride, cols;
};

/// The best of one part (blockIdx.y) of a row: packs of N go round the parts, what is left over to the last.
template <class T, int N>
__global__ void __launch_bounds__(1024) best_of_part(Logits logits, std::int32_t* ids, std::uint64_t* best_of) {
  const T* row = static_cast<const T*>(logits.values) + blockIdx.x * logits.stride;
  const std::int64_t packs = logits.cols / N;
  const std::int64_t threads = static_cast<std::int64_t>(gridDim.y) * blockDim.x;
  std::uint64_t best = 0;
#pragma unroll 4
  for (std::int64_t pack = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x; pack < packs;
       pack += threads) {
    const Pack<T, N> values = load<T, N>(row + pack * N);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const std::uint64_t rank = rank_of(to_float(values.at[i]), pack * N + i);
      best = rank > best ? rank : best;
    }
  }
  const std::int64_t rest = packs * N + threadIdx.x;
  if (blockIdx.y + 1 == gridDim.y && rest < logits.cols) {
    const std::uint64_t rank = rank_of(to_float(row[rest]), rest);
    best = rank > best ? rank : best;
  }
  best = block_best(best);
  if (threadIdx.x > 0) return;
  if (best_of)
    best_of[blockIdx.x * gridDim.y + blockIdx.y] = best;
  else
    ids[blockIdx.x] = index_in(best);
}

__global__ void best_of_parts(const std::uint64_t* best_of, std::int64_t parts, std::int32_t* ids) {
  const std::uint64_t best = block_best(threadIdx.x < parts ? best_of[blockIdx.x * parts + threadIdx.x] : 0);
  if (threadIdx.x == 0) ids[blockIdx.x] = index_in(best);
}

/// One warp a sequence. Parents come before children, so children are looked for behind their node only.
__global__ void walk_tree(WalkCall call) {
  const std::int64_t begin = blockIdx.x * call.nodes;
  const auto nodes = static_cast<std::int32_t>(call.nodes);
  const auto lane = static_cast<std::int32_t>(threadIdx.x);
  std::int32_t node = 0, kept = 0;
  while (true) {
    if (lane == 0) call.kept[begin + kept] = node;
    ++kept;
    const std::int32_t choice = call.choice[begin + node];
    std::int32_t next = -1;
    for (std::int32_t first = node + 1; first < nodes && next < 0; first += 32) {
      const std::int32_t i = first + lane;
      const bool hit = i < nodes && call.parents[begin + i] == node && call.tokens[begin + i] == choice;
      const unsigned hits = __ballot_sync(all_lanes, hit);
      if (hits) next = first + __ffs(static_cast<int>(hits)) - 1;
    }
    if (next < 0) {
      if (lane == 0) {
        call.accepted[blockIdx.x] = kept - 1;
        call.last[blockIdx.x] = choice;
      }
      break;
    }
    node = next;
  }
  for (std::int32_t i = kept + lane; i < nodes; i += 32) call.kept[begin + i] = -1;
}

}  // namespace

std::int64_t argmax_workspace(std::int64_t rows) {
  return rows == 0 ? 0 : rows * parts_of(rows) * static_cast<std::int64_t>(sizeof(std::uint64_t));
}

void argmax_rows(const void* logits, std::int64_t rows, std::int64_t stride, std::int64_t cols, std::int32_t* ids,
                 Real real, cudaStream_t stream, void* workspace) {
  if (rows == 0) return;
  const std::int64_t parts = workspace ? parts_of(rows) : 1;
  auto* best = parts > 1 ? static_cast<std::uint64_t*>(workspace) : nullptr;
  const unsigned threads = parts > 1 ? part_threads : threads_for(cols, 1024);
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(parts));
  const Logits call{logits, stride, cols};
  with_real(real, [&]<class T>(T) {
    constexpr int n = full_pack<T>;
    if (packs_fit(n, sizeof(T), {stride}, {logits}))
      best_of_part<T, n><<<grid, threads, 0, stream>>>(call, ids, best);
    else
      best_of_part<T, 1><<<grid, threads, 0, stream>>>(call, ids, best);
  });
  if (best) best_of_parts<<<static_cast<unsigned>(rows), most_parts, 0, stream>>>(best, parts, ids);
  comm::check(cudaGetLastError(), "argmax_rows");
}

void walk(const WalkCall& call, cudaStream_t stream) {
  if (call.sequences == 0) return;
  walk_tree<<<static_cast<unsigned>(call.sequences), 32, 0, stream>>>(call);
  comm::check(cudaGetLastError(), "walk");
}

}  // namespace specstep::cuda
