// How the parts of a cache become one result: through the shared memory of a cluster of blocks, then through the
// workspace, where the last block to come joins.
#pragma once

#include <nv/target>

#include "sim/cuda/kernels/attention_device.cuh"
#include "sim/cuda/kernels/early.cuh"

namespace specstep::cuda {

/// Score of nothing seen: finite, so that differences of two are numbers.
constexpr float nothing_seen = -1e30F;
/// Most blocks of a cluster, and most groups that last blocks join; more take a second kernel.
constexpr std::int32_t largest_cluster = 8, groups_joined_inside = 32;
/// Without clusters one block joins all of a unit: only so many.
constexpr std::int32_t parts_joined_inside = 8;

/// The two halves of a barrier of all threads of a cluster; of the block where the device has no clusters. What a
/// thread wrote before it arrives can be read behind the wait; not where it only departs.
__device__ inline void arrive_in_cluster() {
  NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90,
                    (asm volatile("barrier.cluster.arrive.release.aligned;" ::
                                      : "memory");),
                    (__syncthreads();))
}
__device__ inline void depart_from_cluster() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");))
}
__device__ inline void wait_for_cluster() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");))
}

/// What the block `rank` of the cluster holds at the place of `mine` in its shared memory.
__device__ inline float4 of_block(const float4* mine, std::int32_t rank) {
  float4 v = make_float4(0, 0, 0, 0);
  NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90,
                    (const auto here = static_cast<std::uint32_t>(__cvta_generic_to_shared(mine)); std::uint32_t there;
                     asm("mapa.shared::cluster.u32 %0, %1, %2;"
                         : "=r"(there)
                         : "r"(here), "r"(rank));
                     asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                                  : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                                  : "r"(there)
                                  : "memory");),
                    (v = *mine;))
  return v;
}
__device__ inline float2 of_block(const float2* mine, std::int32_t rank) {
  float2 v = make_float2(0, 0);
  NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90,
                    (const auto here = static_cast<std::uint32_t>(__cvta_generic_to_shared(mine)); std::uint32_t there;
                     asm("mapa.shared::cluster.u32 %0, %1, %2;"
                         : "=r"(there)
                         : "r"(here), "r"(rank));
                     asm volatile("ld.shared::cluster.v2.f32 {%0, %1}, [%2];"
                                  : "=f"(v.x), "=f"(v.y)
                                  : "r"(there)
                                  : "memory");),
                    (v = *mine;))
  return v;
}

/// Index of a row of a group in the workspace.
__device__ inline std::int64_t group_row(const AttendParams& p, const Unit& u, std::int32_t group, std::int32_t row) {
  return (static_cast<std::int64_t>(u.index) * p.groups + group) * p.tile_rows + row;
}

/// Tells whether this block is the last of `expected` to count here; what the others wrote before can then be read
/// (past the first-level cache). The counter is zero again afterwards. All threads of the block call it.
__device__ inline bool last_of(std::uint32_t* counter, std::int32_t expected, std::int32_t* shared) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) {
    const std::uint32_t before = atomicAdd(counter, 1U);
    *shared = before + 1 == static_cast<std::uint32_t>(expected);
    if (*shared) *counter = 0;
  }
  __syncthreads();
  __threadfence();
  return *shared != 0;
}

__device__ inline void add_scaled(float4& sum, float w, const float4& v) {
  sum.x += w * v.x;
  sum.y += w * v.y;
  sum.z += w * v.z;
  sum.w += w * v.w;
}
template <typename T>
__device__ void put_quad(T* to, const float4& v) {
  alignas(16) T quad[4] = {from_float<T>(v.x), from_float<T>(v.y), from_float<T>(v.z), from_float<T>(v.w)};
  if constexpr (sizeof(T) == 2)
    *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(quad);
  else
    *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(quad);
}
template <typename T>
__device__ void put_output(const AttendParams& p, const Unit& u, std::int32_t row, std::int32_t col, const float4& v) {
  const std::int64_t token = u.sequence * p.meta.tokens_each + u.query(row);
  put_quad(static_cast<T*>(p.out) + (token * p.heads + u.head(row)) * p.value_dim + col, v);
}

/// Share of a unit's output that one block of each group joins: quads of columns, row by row.
struct Slice {
  std::int32_t begin, end, quads;

  __device__ std::int32_t first_row() const { return begin / quads; }
};
__device__ inline Slice slice_of(const AttendParams& p, const Unit& u, std::int32_t rank) {
  const std::int32_t quads = p.value_dim / 4;
  const std::int32_t each = (u.rows * quads + p.cluster - 1) / p.cluster;
  return {min(rank * each, u.rows * quads), min((rank + 1) * each, u.rows * quads), quads};
}

/// Weights of up to 32 contributions to a row, one in each lane: what to multiply each one's sums with; `total` becomes
/// the row's stats.
__device__ inline float weight_of(float2 stats, float2& total) {
  total.x = warp_max(stats.x);
  const float weight = expf(stats.x - total.x);
  total.y = warp_sum(weight * stats.y);
  return weight;
}

/// Joins a slice of at most 32 groups in the workspace, in their order. `weights`: shared, 32 for each row of the
/// slice.
template <typename T>
__device__ void join_groups(const AttendParams& p, const Unit& u, const Slice& slice, std::int32_t groups,
                            float* weights) {
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const auto threads = static_cast<std::int32_t>(blockDim.x);
  const std::int32_t lane = thread % 32;
  for (std::int32_t row = slice.first_row() + thread / 32; row * slice.quads < slice.end; row += threads / 32) {
    const float2 own = lane < groups ? __ldcg(p.stats + group_row(p, u, lane, row)) : make_float2(nothing_seen, 0);
    float2 total;
    const float weight = weight_of(own, total);
    weights[(row - slice.first_row()) * 32 + lane] = total.y > 0 ? weight / total.y : 0;
  }
  __syncthreads();
  for (std::int32_t i = slice.begin + thread; i < slice.end; i += threads) {
    const std::int32_t row = i / slice.quads;
    const std::int32_t col = i % slice.quads * 4;
    float4 sum = make_float4(0, 0, 0, 0);
    const float* weight = weights + (row - slice.first_row()) * 32;
    const float* from = p.partial + group_row(p, u, 0, row) * p.value_dim + col;
    const std::int64_t step = static_cast<std::int64_t>(p.tile_rows) * p.value_dim;
    for (std::int32_t first = 0; first < groups; first += 8) {
      float4 part[8];
#pragma unroll
      for (std::int32_t k = 0; k < 8; ++k)  // all reads in flight at once
        if (first + k < groups) part[k] = __ldcg(reinterpret_cast<const float4*>(from + (first + k) * step));
#pragma unroll
      for (std::int32_t k = 0; k < 8; ++k)
        if (first + k < groups) add_scaled(sum, weight[first + k], part[k]);
    }
    put_output<T>(p, u, row, col, sum);
  }
}

/// A block's part of its unit, in shared memory, at the same place in all blocks of a cluster.
struct PartSums {
  const float* sums;    // [rows][stride]
  const float2* stats;  // [rows]
  float* weights;       // [rows][32], for the join
  std::int32_t stride;
};

/// Joins the parts of a cluster, and its group with the others. All blocks of the cluster call it, those without a part
/// too; `active` parts of the unit have one.
template <typename T>
__device__ void join_cluster(const AttendParams& p, const Unit& u, std::int32_t active, const PartSums& part) {
  __shared__ std::int32_t last;
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const auto threads = static_cast<std::int32_t>(blockDim.x);
  const std::int32_t lane = thread % 32;
  const auto number = static_cast<std::int32_t>(blockIdx.y);
  const std::int32_t group = number / p.cluster;
  const std::int32_t rank = number % p.cluster;
  const std::int32_t here = min(p.cluster, active - group * p.cluster);
  const std::int32_t groups = (active + p.cluster - 1) / p.cluster;
  const Slice slice = slice_of(p, u, rank);
  arrive_in_cluster();
  wait_for_cluster();
  for (std::int32_t row = slice.first_row() + thread / 32; row * slice.quads < slice.end; row += threads / 32) {
    const float2 own = lane < here ? of_block(part.stats + row, lane) : make_float2(nothing_seen, 0);
    float2 total;
    const float weight = weight_of(own, total);
    const float whole = groups > 1 ? 1 : total.y > 0 ? 1 / total.y : 0;
    part.weights[(row - slice.first_row()) * 32 + lane] = weight * whole;
    // Slices that share a row write the same.
    if (groups > 1 && lane == 0) p.stats[group_row(p, u, group, row)] = total;
  }
  __syncthreads();
  for (std::int32_t i = slice.begin + thread; i < slice.end; i += threads) {
    const std::int32_t row = i / slice.quads;
    const std::int32_t col = i % slice.quads * 4;
    const auto* mine = reinterpret_cast<const float4*>(part.sums + row * part.stride + col);
    const float* weight = part.weights + (row - slice.first_row()) * 32;
    float4 from[largest_cluster];
#pragma unroll
    for (std::int32_t k = 0; k < largest_cluster; ++k)
      if (k < here) from[k] = of_block(mine, k);
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (std::int32_t k = 0; k < largest_cluster; ++k)
      if (k < here) add_scaled(sum, weight[k], from[k]);
    if (groups > 1)
      *reinterpret_cast<float4*>(p.partial + group_row(p, u, group, row) * p.value_dim + col) = sum;
    else
      put_output<T>(p, u, row, col, sum);
  }
  depart_from_cluster();  // no block leaves before the others have read its shared memory
  if (groups > 1) {
    if (!p.join_inside) {
      if (number == 0 && thread == 0) p.active[u.index] = groups;
    } else if (last_of(p.arrived + u.index * p.cluster + rank, groups, &last)) {
      join_groups<T>(p, u, slice, groups, part.weights);
    }
  } else if (p.groups > 1 && !p.join_inside && thread == 0) {
    p.active[u.index] = 1;
  }
  wait_for_cluster();
}

}  // namespace specstep::cuda
