// The kernel of attention on tensor cores, and its launch.
#pragma once

#include "comm/cuda/check.h"
#include "sim/cuda/kernels/attention_launch.h"
#include "sim/cuda/kernels/attention_tensor.cuh"

namespace specstep::cuda {

/// Output of the unit, or what its part contributes to it.
template <typename S>
__device__ void put_sums(const AttendParams& p, const TensorBlock<S>& b, std::int32_t part, const float2* stats,
                         const Sums<S>& sums) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < S::row_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = m * 16 + lane / 4 + half * 8;
      if (row >= b.unit.rows) continue;
      const int col = warp * S::columns + lane % 4 * 2;
      const float whole = stats[row].y;
      const float scale = part >= 0 ? 1 : whole > 0 ? 1 / whole : 0;
      const std::int64_t token = b.unit.sequence * p.meta.tokens_each + b.unit.query(row);
#pragma unroll
      for (int n = 0; n < S::columns / 8; ++n) {
        const float x = sums[m][n][2 * half] * scale;
        const float y = sums[m][n][2 * half + 1] * scale;
        if (part >= 0) {
          float* to = p.partial + part_row(p, b.unit, part, row) * S::value_dim + col + n * 8;
          *reinterpret_cast<float2*>(to) = make_float2(x, y);
        } else {
          bf16* to = static_cast<bf16*>(p.out) + (token * p.heads + b.unit.head(row)) * S::value_dim + col + n * 8;
          *reinterpret_cast<__nv_bfloat162*>(to) = __floats2bfloat162_rn(x, y);
        }
      }
    }
}

/// All tiles of the part, one after the other; the copies run `stages` - 1 tiles ahead.
template <typename S>
__device__ void run_tiles(const AttendParams& p, const TensorBlock<S>& b, const Part& part, Running<S>& run,
                          Sums<S>& sums) {
  const std::int32_t* pages = p.meta.pages + b.unit.sequence * p.meta.pages_each;
  const int end = part.first_tile + part.tiles;
  const auto page_of = [&](int tile) {
    return tile < end && !p.selected ? pages[tile * S::tokens / static_cast<int>(page_tokens)] : 0;
  };
  std::int32_t page = page_of(part.first_tile);
  const auto start = [&](int tile) {
    const std::int32_t here = page;
    page = page_of(tile + 1);
    if (tile < end) load_tile(p, b, tile, (tile - part.first_tile) % S::stages, here);
    commit_copies();
  };
  for (int i = 0; i < S::stages - 1; ++i) start(part.first_tile + i);
  load_query(p, b);  // while the first tiles are on their way
  for (int tile = part.first_tile; tile < end; ++tile) {
    const int stage = (tile - part.first_tile) % S::stages;
    await_copies<S::stages - 2>();
    __syncthreads();  // the tile is here, and nobody reads the one before it any more
    start(tile + S::stages - 1);
    score_tile(b, stage);
    __syncthreads();
    weigh_tile(p, b, tile, run);
    __syncthreads();
    add_values(b, stage, sums);
  }
  await_copies<0>();
}

template <typename S>
__global__ void __launch_bounds__(S::threads, S::blocks_each) attend_tensor(const __grid_constant__ AttendParams p) {
  extern __shared__ __align__(16) unsigned char memory[];
  __shared__ Stretch seen[S::rows];
  __shared__ float rescale[S::rows];
  __shared__ float2 stats[S::rows];
  __shared__ std::int32_t last;
  TensorBlock<S> b{};
  b.tiles = reinterpret_cast<bf16*>(memory);
  b.query = b.tiles + S::stages * S::stage;
  b.scores = reinterpret_cast<float*>(b.query + S::rows * S::key_stride);
  b.weights = reinterpret_cast<bf16*>(b.scores + S::splits * S::rows * S::score_stride);
  b.seen = seen;
  b.rescale = rescale;
  b.unit = unit_of(p, static_cast<std::int32_t>(blockIdx.x), static_cast<std::int32_t>(blockIdx.z));
  b.base = p.meta.base[b.unit.sequence];
  b.all = look(p, b.unit, S::rows, seen);
  const auto number = static_cast<std::int32_t>(blockIdx.y);
  const Part part = part_of(b.all, S::tokens, number, p.parts);
  if (number == 0 && p.parts > 1 && threadIdx.x == 0) p.active[b.unit.index] = part.active;
  if (number >= part.active) return;

  Running<S> run;
#pragma unroll
  for (int i = 0; i < S::rows_each; ++i) {
    run.most[i] = nothing_seen;
    run.sum[i] = 0;
  }
  Sums<S> sums = {};
  run_tiles(p, b, part, run, sums);
#pragma unroll
  for (int i = 0; i < S::rows_each; ++i) {
    const int row = static_cast<int>(threadIdx.x) / 32 + i * S::warps;
    const float sum = warp_sum(run.sum[i]);
    if (threadIdx.x % 32 == 0) stats[row] = make_float2(run.most[i] * 0.6931471805599453F, sum);
  }
  __syncthreads();
  put_sums(p, b, part.active > 1 ? number : -1, stats, sums);
  if (part.active == 1) return;
  const auto row = static_cast<std::int32_t>(threadIdx.x);
  if (row < b.unit.rows) p.stats[part_row(p, b.unit, number, row)] = stats[row];
  if (p.join_inside && last_of_unit(p, b.unit, part.active, &last)) join_unit<bf16>(p, b.unit, part.active, b.scores);
}

/// An instance in words of the launch.
template <typename S>
constexpr TensorNeeds needs_of() {
  return {S::row_tiles, S::rows, S::tokens, S::blocks_each, S::bytes};
}

template <typename S>
void launch_tensor(const AttendParams& p, dim3 grid, cudaStream_t stream) {
  comm::check(cudaFuncSetAttribute(attend_tensor<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, S::bytes),
              "attention: shared memory of its kernel");
  attend_tensor<S><<<grid, S::threads, S::bytes, stream>>>(p);
  comm::check(cudaGetLastError(), "attention: launch");
}

}  // namespace specstep::cuda
