// The sparse index: keys into their cache, scores of all slots that a token sees, and the best of them. Scores are kept
// as integers in the order of the floats, zero for a slot that the token does not see.
#include "comm/cuda/check.h"
#include "model/base/error.h"
#include "sim/cuda/kernels/attention.h"
#include "sim/cuda/kernels/attention_device.cuh"
#include "sim/cuda/kernels/shared_memory.h"

namespace specstep::cuda {

namespace {

constexpr int tile = 64;        // slots of a block: one page
constexpr int head_groups = 4;  // each sums a quarter of the heads
constexpr int threads = tile * head_groups;
constexpr int heads_at_once = 4;
constexpr int select_threads = 1024;

struct IndexParams {
  PassMeta meta;
  const void* query;
  const void* key;
  std::int32_t heads, dim, top_k;
  bool per_query;
  void* cache;
  std::int32_t cache_bytes;
  std::uint32_t* scores;  // [tokens][slots]
  std::int64_t slots;
  std::int32_t* selected;
};

template <typename T>
__global__ void append_keys(const __grid_constant__ IndexParams p) {
  const auto token = static_cast<std::int64_t>(blockIdx.x);
  const auto sequence = static_cast<std::int32_t>(token / p.meta.tokens_each);
  const std::int64_t row = row_of_slot(p.meta, sequence, p.meta.slots[token]) * p.dim;
  const T* key = static_cast<const T*>(p.key) + token * (p.dim + p.heads);
  for (auto i = static_cast<std::int32_t>(threadIdx.x); i < p.dim; i += static_cast<int>(blockDim.x))
    put_cached(p.cache, p.cache_bytes, row + i, to_float(key[i]));
}

/// Larger floats have larger codes; none is zero.
__device__ std::uint32_t ordered(float v) {
  const std::uint32_t bits = v == 0 ? 0 : __float_as_uint(v);  // both zeros are equal
  return bits >> 31 ? ~bits : bits | 0x80000000U;
}

/// Sum over a quarter of the heads of weight relu(q . k) for one key; rows of shared memory, read four values at once.
__device__ float score_of(const IndexParams& p, const float* key, const float* query, const float* weights,
                          std::int32_t first, std::int32_t end) {
  const std::int32_t stride = p.dim + 4;
  float score = 0;
  for (std::int32_t h = first; h < end; h += heads_at_once) {
    float match[heads_at_once] = {};
    for (std::int32_t d = 0; d < p.dim; d += 4) {
      const float4 k = *reinterpret_cast<const float4*>(key + d);
#pragma unroll
      for (int i = 0; i < heads_at_once; ++i) {
        const float4 q = *reinterpret_cast<const float4*>(query + min(h + i, end - 1) * stride + d);
        match[i] += k.x * q.x;
        match[i] += k.y * q.y;
        match[i] += k.z * q.z;
        match[i] += k.w * q.w;
      }
    }
#pragma unroll
    for (int i = 0; i < heads_at_once; ++i)
      if (h + i < end) score += weights[h + i] * fmaxf(match[i], 0.0F);
  }
  return score;
}

/// One query against the tile of keys in shared memory.
template <typename T>
__device__ void score_query(const IndexParams& p, std::int32_t sequence, std::int64_t token, std::int32_t first_slot,
                            float* shared) {
  const std::int32_t stride = p.dim + 4;
  const float* keys = shared;
  float* query = shared + tile * stride;
  float* weights = query + p.heads * stride;
  float* sums = weights + p.heads;
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const T* from = static_cast<const T*>(p.query) + token * p.heads * p.dim;
  const T* from_weights = static_cast<const T*>(p.key) + token * (p.dim + p.heads) + p.dim;
  __syncthreads();  // nobody reads the query before
  for (std::int32_t i = thread; i < p.heads * p.dim; i += threads)
    query[i / p.dim * stride + i % p.dim] = to_float(from[i]);
  for (std::int32_t i = thread; i < p.heads; i += threads) weights[i] = to_float(from_weights[i]);
  __syncthreads();
  const std::int32_t group = thread / tile;
  const std::int32_t in_tile = thread % tile;
  const std::int32_t each = (p.heads + head_groups - 1) / head_groups;
  const std::int32_t first = min(group * each, p.heads);
  sums[thread] = score_of(p, keys + in_tile * stride, query, weights, first, min(first + each, p.heads));
  __syncthreads();
  const std::int32_t slot = first_slot + in_tile;
  if (group > 0 || slot >= p.slots) return;
  float score = 0;
  for (int g = 0; g < head_groups; ++g) score += sums[g * tile + in_tile];
  const std::int32_t base = p.meta.base[sequence];
  bool seen = slot < reach_of(p.meta, sequence, token).end;
  if (seen && slot >= base && p.meta.mask)
    seen = p.meta.mask[token * p.meta.mask_words + (slot - base) / 32] >> ((slot - base) % 32) & 1;
  p.scores[token * p.slots + slot] = seen ? ordered(score) : 0;
}

template <typename T>
__global__ void __launch_bounds__(threads) score_slots(const __grid_constant__ IndexParams p) {
  extern __shared__ __align__(16) float shared[];
  const auto sequence = static_cast<std::int32_t>(blockIdx.z);
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const std::int64_t first = sequence * p.meta.tokens_each + (p.per_query ? blockIdx.y : 0);
  const std::int64_t queries = p.per_query ? 1 : p.meta.tokens_each;
  std::int32_t end = 0;
  for (std::int64_t q = 0; q < queries; ++q) end = max(end, reach_of(p.meta, sequence, first + q).end);
  for (auto slot = static_cast<std::int32_t>(blockIdx.x) * tile; slot < end;
       slot += static_cast<int>(gridDim.x) * tile) {
    const std::int64_t row = row_of_slot(p.meta, sequence, slot);
    __syncthreads();  // nobody reads the tile before
    for (std::int32_t i = thread; i < tile * p.dim; i += threads) {
      const std::int32_t in_tile = i / p.dim;
      const float v = slot + in_tile < end ? cached(p.cache, p.cache_bytes, row * p.dim + i) : 0;
      shared[in_tile * (p.dim + 4) + i % p.dim] = v;
    }
    for (std::int64_t q = 0; q < queries; ++q) score_query<T>(p, sequence, first + q, slot, shared);
  }
}

/// The largest digit with at least k codes at or above it, and how many of its own codes are needed. One warp: a lane
/// takes eight digits, from the largest down.
__device__ void find_digit(const std::int32_t* count, std::int32_t k, std::uint32_t* digit, std::int32_t* left) {
  const auto lane = static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t top = 255 - 8 * lane;
  std::int32_t own = 0;
  for (int i = 0; i < 8; ++i) own += count[top - i];
  std::int32_t with_above = own;
  for (int d = 1; d < 32; d *= 2) {
    const std::int32_t other = __shfl_up_sync(0xFFFFFFFFU, with_above, d);
    if (lane >= d) with_above += other;
  }
  std::int32_t rest = k - (with_above - own);
  if (rest <= 0 || rest > own) return;  // the digit is another lane's
  std::int32_t at = top;
  for (; count[at] < rest; --at) rest -= count[at];
  *digit = static_cast<std::uint32_t>(at);
  *left = rest;
}

/// The k-th largest code, and how many of the codes equal to it are among the k.
struct Threshold {
  std::uint32_t code;
  std::int32_t equals;
};

/// Radix selection, eight bits at a time from the top. There are more than k codes above zero.
__device__ Threshold find_threshold(const std::uint32_t* scores, std::int32_t end, std::int32_t k) {
  __shared__ std::int32_t count[256];
  __shared__ std::uint32_t digit;
  __shared__ std::int32_t left;
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  std::uint32_t prefix = 0;
  for (int shift = 24; shift >= 0; shift -= 8) {
    if (thread < 256) count[thread] = 0;
    __syncthreads();
    const std::uint32_t known = shift == 24 ? 0 : 0xFFFFFFFFU << (shift + 8);
    for (std::int32_t i = thread; i < end; i += select_threads)
      if ((scores[i] & known) == prefix) atomicAdd(&count[scores[i] >> shift & 255], 1);
    __syncthreads();
    if (thread < 32) find_digit(count, k, &digit, &left);
    __syncthreads();
    prefix |= digit << shift;
    k = left;
  }
  return {prefix, k};
}

/// Number of set flags among the threads before this one; `total` of all.
__device__ std::int32_t rank_in_block(bool flag, std::int32_t* shared, std::int32_t& total) {
  const std::uint32_t votes = __ballot_sync(0xFFFFFFFFU, flag);
  const auto warp = threadIdx.x / 32;
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[warp] = __popc(votes);
  __syncthreads();
  std::int32_t before = 0;
  total = 0;
  for (std::uint32_t w = 0; w < select_threads / 32; ++w) {
    before += w < warp ? shared[w] : 0;
    total += shared[w];
  }
  return before + __popc(votes & ((1U << (threadIdx.x % 32)) - 1));
}

/// The best places of a token, ascending: a place is the number of seen slots before it.
__global__ void __launch_bounds__(select_threads) select_best(const __grid_constant__ IndexParams p) {
  __shared__ std::int32_t warps[select_threads / 32];
  const auto token = static_cast<std::int64_t>(blockIdx.x);
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  const auto sequence = static_cast<std::int32_t>(token / p.meta.tokens_each);
  std::int32_t* out = p.selected + token * p.top_k;
  const Reach reach = reach_of(p.meta, sequence, token);
  if (reach.seen <= p.top_k) {
    for (std::int32_t i = thread; i < p.top_k; i += select_threads) out[i] = i < reach.seen ? i : -1;
    return;
  }
  const std::uint32_t* scores = p.scores + token * p.slots;
  const Threshold t = find_threshold(scores, reach.end, p.top_k);
  std::int32_t place = 0, equals = 0, written = 0;  // of all slots before this round
  for (std::int32_t begin = 0; begin < reach.end && written < p.top_k; begin += select_threads) {
    const std::uint32_t code = begin + thread < reach.end ? scores[begin + thread] : 0;
    std::int32_t seen_here = 0, equals_here = 0, written_here = 0;
    const std::int32_t own_place = place + rank_in_block(code > 0, warps, seen_here);
    const std::int32_t own_equal = equals + rank_in_block(code == t.code, warps, equals_here);
    const bool chosen = code > t.code || (code == t.code && own_equal < t.equals);
    const std::int32_t at = written + rank_in_block(chosen, warps, written_here);
    if (chosen) out[at] = own_place;
    place += seen_here;
    equals += equals_here;
    written += written_here;
  }
}

template <typename T>
void launch(const IndexParams& p, const SparseIndex& op, cudaStream_t stream) {
  const auto tokens = static_cast<unsigned>(p.meta.count());
  append_keys<T><<<tokens, 128, 0, stream>>>(p);
  comm::check(cudaGetLastError(), "sparse index: launch of the keys");
  const std::int32_t bytes = ((tile + p.heads) * (p.dim + 4) + p.heads + threads) * 4;
  allow_shared_memory(score_slots<T>, bytes, "sparse index");
  const std::int64_t tiles = (op.context + op.queries + tile - 1) / tile;
  const dim3 grid(static_cast<unsigned>(tiles), p.per_query ? static_cast<unsigned>(op.queries) : 1U,
                  static_cast<unsigned>(p.meta.sequences));
  score_slots<T><<<grid, threads, bytes, stream>>>(p);
  comm::check(cudaGetLastError(), "sparse index: launch of the scores");
  select_best<<<tokens, select_threads, 0, stream>>>(p);
  comm::check(cudaGetLastError(), "sparse index: launch of the selection");
}

}  // namespace

std::int64_t index_workspace(const SparseIndex& op, std::int64_t slots) {
  return counter_bytes + op.sequences * op.queries * slots * 4;
}

void sparse_index(const IndexCall& call, const Cache& cache, const PassMeta& meta, Real real, cudaStream_t stream) {
  const SparseIndex& op = call.op;
  if (meta.count() == 0) return;
  if (meta.sequences != op.sequences || meta.tokens_each != op.queries)
    throw Error("sparse index: pass and operation differ in tokens");
  if (cache.values != op.dim || op.dim % 4 != 0) throw Error("sparse index: its dimension is no multiple of 4");
  const auto narrow = [](std::int64_t v) { return static_cast<std::int32_t>(v); };
  IndexParams p{};
  p.meta = meta;
  p.query = call.query;
  p.key = call.key;
  p.heads = narrow(op.heads);
  p.dim = narrow(op.dim);
  p.top_k = narrow(op.top_k);
  p.per_query = !op.queries_share_kv;
  p.cache = cache.rows;
  p.cache_bytes = cache.dtype == DType::fp8 ? 1 : cache.dtype == DType::bf16 ? 2 : 4;
  p.scores = reinterpret_cast<std::uint32_t*>(static_cast<char*>(call.workspace) + counter_bytes);
  p.slots = meta.pages_each * page_tokens;
  p.selected = call.selected;
  if (real == Real::f32)
    launch<float>(p, op, stream);
  else
    launch<__nv_bfloat16>(p, op, stream);
}

}  // namespace specstep::cuda
