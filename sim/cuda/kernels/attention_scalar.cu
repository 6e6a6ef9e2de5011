// Attention with plain fp32 sums: a warp for each row, a lane for each token of a tile, then a lane for each column.
#include "comm/cuda/check.h"
#include "sim/cuda/kernels/attention_join.cuh"
#include "sim/cuda/kernels/attention_launch.h"
#include "sim/cuda/kernels/shared_memory.h"

namespace specstep::cuda {

namespace {

constexpr int threads = 32 * scalar_rows;

/// Rows of shared memory are one longer than their values, so that 32 tokens fall into 32 banks.
struct ScalarBlock {
  float* query;   // [scalar_rows][score_dim]
  float* keys;    // [scalar_tokens][score_dim + 1]
  float* values;  // [scalar_tokens][value_dim + 1]; mla: the keys
  std::int32_t key_stride, value_stride;
};

__host__ __device__ std::int32_t shared_floats(const AttendParams& p) {
  return scalar_rows * p.score_dim + scalar_tokens * (p.score_dim + 1 + (p.mla ? 0 : p.value_dim + 1));
}

template <typename T>
__device__ void load_query(const AttendParams& p, const Unit& u, std::int32_t row, float* to) {
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  const std::int64_t token = u.sequence * p.meta.tokens_each + u.query(row);
  const std::int32_t head = u.head(row);
  const std::int32_t whole = p.mla ? p.value_dim : p.score_dim;  // from the first of the two inputs of mla
  const T* first = static_cast<const T*>(p.query) + token * p.query_stride + head * whole;
  for (std::int32_t i = lane; i < whole; i += 32) to[i] = to_float(first[i]);
  if (!p.mla) return;
  const T* second = static_cast<const T*>(p.rotated) + token * p.rotated_stride + head * (p.nope_dim + p.rope_dim);
  for (std::int32_t i = lane; i < p.rope_dim; i += 32) to[whole + i] = to_float(second[p.nope_dim + i]);
}

/// A warp brings every eighth token of a tile; zeros for those that nobody sees.
__device__ void load_tile(const AttendParams& p, const Unit& u, const Stretch& all, int tile, const ScalarBlock& b) {
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  const std::int64_t token = u.sequence * p.meta.tokens_each + u.first_query;
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x / 32); i < scalar_tokens; i += scalar_rows) {
    const std::int32_t entry = tile * scalar_tokens + i;
    std::int32_t slot = entry >= all.begin && entry < all.end ? entry : -1;
    if (p.selected && slot >= 0) slot = slot_of_place(p.meta, u.sequence, token, p.selected[token * p.limit + entry]);
    const std::int64_t at = slot < 0 ? 0 : row_of_slot(p.meta, u.sequence, slot) * p.cache_values;
    const std::int64_t key = at + u.kv_head * p.score_dim;
    for (std::int32_t c = lane; c < p.score_dim; c += 32)
      b.keys[i * b.key_stride + c] = slot < 0 ? 0 : cached(p.cache, p.cache_bytes, key + c);
    if (p.mla) continue;
    const std::int64_t value = at + p.value_col + u.kv_head * p.value_dim;
    for (std::int32_t c = lane; c < p.value_dim; c += 32)
      b.values[i * b.value_stride + c] = slot < 0 ? 0 : cached(p.cache, p.cache_bytes, value + c);
  }
}

__device__ float dot(const float* a, const float* b, std::int32_t n) {
  float sums[4] = {};
  std::int32_t i = 0;
  for (; i + 4 <= n; i += 4)
#pragma unroll
    for (int k = 0; k < 4; ++k) sums[k] += a[i + k] * b[i + k];
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// Columns: of the output, of a lane.
template <typename T, int Columns>
__global__ void __launch_bounds__(threads) attend_scalar(const __grid_constant__ AttendParams p) {
  extern __shared__ float memory[];
  __shared__ Stretch seen[scalar_rows];
  __shared__ float weights[scalar_rows * 32];
  __shared__ std::int32_t last;
  const auto row = static_cast<std::int32_t>(threadIdx.x / 32);
  const auto lane = static_cast<std::int32_t>(threadIdx.x % 32);
  ScalarBlock b{memory, memory + scalar_rows * p.score_dim, nullptr, p.score_dim + 1, p.value_dim + 1};
  b.values = p.mla ? b.keys : b.keys + scalar_tokens * b.key_stride;
  if (p.mla) b.value_stride = b.key_stride;
  const Unit u = unit_of(p, static_cast<std::int32_t>(blockIdx.x), static_cast<std::int32_t>(blockIdx.z));
  const std::int32_t base = p.meta.base[u.sequence];
  const Stretch all = look(p, u, scalar_rows, seen).all;
  const auto number = static_cast<std::int32_t>(blockIdx.y);
  const Part part = part_of(all, scalar_tokens, number, p.parts);
  if (number == 0 && p.groups > 1 && threadIdx.x == 0) p.active[u.index] = part.active;
  if (number >= part.active) return;
  const std::int64_t token = u.sequence * p.meta.tokens_each + u.query(row);
  float* query = b.query + row * p.score_dim;
  if (row < u.rows) load_query<T>(p, u, row, query);

  float most = nothing_seen;
  float sum = 0;
  float out[Columns] = {};
  for (std::int32_t tile = part.first_tile; tile < part.first_tile + part.tiles; ++tile) {
    __syncthreads();
    load_tile(p, u, all, tile, b);
    __syncthreads();
    if (row >= u.rows) continue;
    const bool here = sees(p, token, seen[row], base, tile * scalar_tokens + lane);
    const float score = here ? p.scale * dot(query, b.keys + lane * b.key_stride, p.score_dim) : -INFINITY;
    const float now = fmaxf(most, warp_max(score));
    const float shrink = expf(most - now);
    const float weight = here ? expf(score - now) : 0;
    most = now;
    sum = sum * shrink + weight;
#pragma unroll
    for (int c = 0; c < Columns; ++c) out[c] *= shrink;
    for (int i = 0; i < scalar_tokens; ++i) {
      const float w = __shfl_sync(0xFFFFFFFFU, weight, i);
      if (w == 0) continue;  // whatever an unseen row holds
#pragma unroll
      for (int c = 0; c < Columns; ++c)
        if (lane + 32 * c < p.value_dim) out[c] += w * b.values[i * b.value_stride + lane + 32 * c];
    }
  }
  sum = warp_sum(sum);
  if (row < u.rows) {
    const bool whole = part.active == 1;
    const float scale = !whole ? 1 : sum > 0 ? 1 / sum : 0;
    const std::int64_t to =
        whole ? (token * p.heads + u.head(row)) * p.value_dim : group_row(p, u, number, row) * p.value_dim;
#pragma unroll
    for (int c = 0; c < Columns; ++c) {
      const std::int32_t col = lane + 32 * c;
      if (col >= p.value_dim) continue;
      if (whole)
        static_cast<T*>(p.out)[to + col] = from_float<T>(out[c] * scale);
      else
        p.partial[to + col] = out[c];
    }
    if (!whole && lane == 0) p.stats[group_row(p, u, number, row)] = make_float2(most, sum);
  }
  if (part.active > 1 && p.join_inside && last_of(p.arrived + u.index, part.active, &last))
    join_groups<T>(p, u, slice_of(p, u, 0), part.active, weights);
}

template <typename T, int Columns>
void launch(const AttendParams& p, dim3 grid, cudaStream_t stream) {
  const std::int32_t bytes = shared_floats(p) * 4;
  allow_shared_memory(attend_scalar<T, Columns>, bytes, "attention");
  attend_scalar<T, Columns><<<grid, threads, bytes, stream>>>(p);
  comm::check(cudaGetLastError(), "attention: launch");
}

template <typename T>
void launch_any(const AttendParams& p, dim3 grid, cudaStream_t stream) {
  if (p.value_dim <= 128) return launch<T, 4>(p, grid, stream);
  launch<T, 16>(p, grid, stream);
}

}  // namespace

void launch_scalar(const AttendParams& p, Real real, dim3 grid, cudaStream_t stream) {
  if (real == Real::f32) return launch_any<float>(p, grid, stream);
  launch_any<__nv_bfloat16>(p, grid, stream);
}

}  // namespace specstep::cuda
