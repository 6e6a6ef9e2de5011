// Joins the groups of a split cache where they are many: a block for a row and 128 columns, a warp for every eighth
// group; the warps' sums are added in their order.
#include "comm/cuda/check.h"
#include "sim/cuda/kernels/attention_join.cuh"
#include "sim/cuda/kernels/attention_launch.h"

namespace specstep::cuda {

namespace {

constexpr int warps = 8, columns = 128;

template <typename T>
__global__ void __launch_bounds__(32 * warps) join_parts(const __grid_constant__ AttendParams p) {
  __shared__ float4 sums[warps][columns / 4];
  const auto index = static_cast<std::int32_t>(blockIdx.x) / p.tile_rows;
  const auto row = static_cast<std::int32_t>(blockIdx.x) % p.tile_rows;
  const auto warp = static_cast<std::int32_t>(threadIdx.x / 32);
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  const Unit u = unit_of(p, index, static_cast<std::int32_t>(blockIdx.z));
  const std::int32_t active = p.active[u.index];
  if (row >= u.rows || active == 1) return;
  float most = nothing_seen;
  for (std::int32_t i = lane; i < active; i += 32) most = fmaxf(most, p.stats[group_row(p, u, i, row)].x);
  most = warp_max(most);
  float sum = 0;
  for (std::int32_t i = lane; i < active; i += 32) {
    const float2 s = p.stats[group_row(p, u, i, row)];
    sum += expf(s.x - most) * s.y;
  }
  sum = warp_sum(sum);

  const std::int32_t col = static_cast<std::int32_t>(blockIdx.y) * columns + lane * 4;
  float4 own = make_float4(0, 0, 0, 0);
  if (col < p.value_dim) {
#pragma unroll 4
    for (std::int32_t i = warp; i < active; i += warps) {
      const std::int64_t at = group_row(p, u, i, row);
      add_scaled(own, expf(p.stats[at].x - most), *reinterpret_cast<const float4*>(p.partial + at * p.value_dim + col));
    }
  }
  sums[warp][lane] = own;
  __syncthreads();
  if (warp > 0 || col >= p.value_dim) return;
  float4 all = make_float4(0, 0, 0, 0);
  const float scale = sum > 0 ? 1 / sum : 0;
  for (int w = 0; w < warps; ++w) add_scaled(all, scale, sums[w][lane]);
  put_output<T>(p, u, row, col, all);
}

}  // namespace

void launch_join(const AttendParams& p, Real real, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(p.units * p.tile_rows),
                  static_cast<unsigned>((p.value_dim + columns - 1) / columns),
                  static_cast<unsigned>(p.meta.sequences));
  if (real == Real::f32)
    join_parts<float><<<grid, 32 * warps, 0, stream>>>(p);
  else
    join_parts<__nv_bfloat16><<<grid, 32 * warps, 0, stream>>>(p);
  comm::check(cudaGetLastError(), "attention: launch of the join");
}

}  // namespace specstep::cuda
