// What the attention kernels share: what a query sees, where its cache keeps it, how the parts of a cache are joined.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "sim/cuda/kernels/pass_meta.h"

namespace specstep::cuda {

/// A launch of attention. A unit is what one set of blocks works on: up to `tile_rows` rows (query-major: query, then
/// query head) that read one key/value head of one sequence. blockIdx = (unit of the sequence, part, sequence).
struct AttendParams {
  PassMeta meta;
  const void* query = nullptr;
  const void* rotated = nullptr;
  std::int64_t query_stride = 0, rotated_stride = 0;  // values from token to token
  std::int32_t nope_dim = 0, rope_dim = 0;
  const std::int32_t* selected = nullptr;
  std::int32_t limit = 0;
  std::int32_t heads = 0, kv_heads = 1, score_dim = 0, value_dim = 0;
  bool mla = false;
  bool per_query = false;  // the queries of a sequence do not share a read
  const void* cache = nullptr;
  std::int32_t cache_values = 0, cache_bytes = 2;  // of a row; of a value (1: fp8, 2: bf16, 4: f32)
  std::int32_t value_col = 0;                      // first value of head 0 in a row
  void* out = nullptr;
  float scale = 1;
  std::int32_t tile_rows = 0, row_tiles = 1, units = 1, parts = 1;  // units: of a sequence
  std::int32_t cluster = 1;          // blocks that join their parts through each other's shared memory: a group
  std::int32_t groups = 1;           // parts / cluster
  bool join_inside = false;          // the last blocks of a unit join its groups; else a second kernel
  std::uint32_t* arrived = nullptr;  // [sequences][units][cluster]
  // Workspace of units of several groups.
  std::int32_t* active = nullptr;  // [sequences][units]: groups that are not empty
  float2* stats = nullptr;         // [sequences][units][groups][tile_rows]: largest score, sum of exp(score - largest)
  float* partial = nullptr;        // [sequences][units][groups][tile_rows][value_dim]
};

/// The rows of a unit.
struct Unit {
  std::int32_t sequence, index, kv_head, share, first_query, first_row, rows;

  __device__ std::int32_t query(std::int32_t row) const { return first_query + (first_row + row) / share; }
  __device__ std::int32_t head(std::int32_t row) const { return kv_head * share + (first_row + row) % share; }
};

__device__ inline Unit unit_of(const AttendParams& p, std::int32_t index, std::int32_t sequence) {
  Unit u{};
  u.sequence = sequence;
  u.index = sequence * p.units + index;
  u.share = p.heads / p.kv_heads;
  const std::int32_t tile = index % p.row_tiles;
  const std::int32_t group = index / p.row_tiles;
  u.kv_head = group % p.kv_heads;
  u.first_query = group / p.kv_heads;  // 0 where the queries share
  u.first_row = tile * p.tile_rows;
  const std::int32_t queries = p.per_query ? 1 : static_cast<std::int32_t>(p.meta.tokens_each);
  u.rows = min(p.tile_rows, u.share * queries - u.first_row);
  return u;
}

/// Slot of the n-th (from zero) uncommitted slot that a token sees; -1 where there are not so many.
__device__ inline std::int32_t nth_seen(const PassMeta& meta, std::int64_t token, std::int32_t n) {
  const std::uint32_t* words = meta.mask + token * meta.mask_words;
  for (std::int32_t w = 0; w < meta.mask_words; ++w) {
    std::uint32_t word = words[w];
    const std::int32_t here = __popc(word);
    if (n >= here) {
      n -= here;
      continue;
    }
    for (; n > 0; --n) word &= word - 1;
    return 32 * w + __ffs(static_cast<std::int32_t>(word)) - 1;
  }
  return -1;
}

/// Number of slots a token sees, and the end of them.
struct Reach {
  std::int32_t seen, end;
};
__device__ inline Reach reach_of(const PassMeta& meta, std::int32_t sequence, std::int64_t token) {
  if (!meta.mask) {
    const std::int32_t end = meta.slots[token] + 1;
    return {end, end};
  }
  const std::int32_t base = meta.base[sequence];
  Reach out{base, base};
  const std::uint32_t* words = meta.mask + token * meta.mask_words;
  for (std::int32_t w = 0; w < meta.mask_words; ++w) {
    if (words[w] == 0) continue;
    out.seen += __popc(words[w]);
    out.end = base + 32 * w + 32 - __clz(static_cast<std::int32_t>(words[w]));
  }
  return out;
}

/// Slot of the i-th (from zero) slot that a token sees; -1 for none.
__device__ inline std::int32_t slot_of_place(const PassMeta& meta, std::int32_t sequence, std::int64_t token,
                                             std::int32_t place) {
  if (place < 0 || !meta.mask) return place;
  const std::int32_t base = meta.base[sequence];
  if (place < base) return place;
  const std::int32_t n = nth_seen(meta, token, place - base);
  return n < 0 ? -1 : base + n;
}

/// Stretch that a token reads: of slots, or of its selected places where there are any.
struct Stretch {
  std::int32_t begin, end;
};
__device__ inline Stretch stretch_of(const AttendParams& p, std::int32_t sequence, std::int64_t token) {
  const Reach reach = reach_of(p.meta, sequence, token);
  if (p.selected) return {0, min(reach.seen, p.limit)};
  if (p.limit <= 0 || reach.seen <= p.limit) return {0, reach.end};
  return {slot_of_place(p.meta, sequence, token, reach.seen - p.limit), reach.end};
}

/// Stretch of everything that a unit's rows see, and the one in which each of them sees every entry.
struct View {
  Stretch all, common;
};
/// Reads what each row of a unit sees into `seen` (shared, `rows` of them; nothing for rows behind the last). All
/// threads of the block call it; it ends with all of them past a barrier.
__device__ inline View look(const AttendParams& p, const Unit& u, std::int32_t rows, Stretch* seen) {
  const auto thread = static_cast<std::int32_t>(threadIdx.x);
  if (thread < rows) {
    const std::int64_t token = u.sequence * p.meta.tokens_each + u.query(thread);
    seen[thread] = thread < u.rows ? stretch_of(p, u.sequence, token) : Stretch{0, 0};
  }
  const std::int32_t base = p.meta.base[u.sequence];
  __syncthreads();
  View out{seen[0], seen[0]};
  for (std::int32_t row = u.share; row < u.rows + u.share - 1; row += u.share) {  // the heads of a query see the same
    const Stretch s = seen[min(row, u.rows - 1)];
    out.all = {min(out.all.begin, s.begin), max(out.all.end, s.end)};
    out.common = {max(out.common.begin, s.begin), min(out.common.end, s.end)};
  }
  out.common.end = p.selected ? 0 : min(out.common.end, base);
  return out;
}

/// Is entry i of a token's stretch one that it sees?
__device__ inline bool sees(const AttendParams& p, std::int64_t token, Stretch s, std::int32_t base, std::int32_t i) {
  if (i < s.begin || i >= s.end) return false;
  if (p.selected) return p.selected[token * p.limit + i] >= 0;
  if (i < base || !p.meta.mask) return true;
  const std::int32_t bit = i - base;
  return p.meta.mask[token * p.meta.mask_words + bit / 32] >> (bit % 32) & 1;
}

/// Row of the cache that holds a slot.
__device__ inline std::int64_t row_of_slot(const PassMeta& meta, std::int32_t sequence, std::int32_t slot) {
  constexpr auto each = static_cast<std::int32_t>(page_tokens);
  return static_cast<std::int64_t>(meta.pages[sequence * meta.pages_each + slot / each]) * each + slot % each;
}

/// Tiles of a unit's cache that this part reads. Their number depends on nothing but the unit's own sequence.
struct Part {
  std::int32_t first_tile, tiles, active;
};
__device__ inline Part part_of(Stretch all, std::int32_t tile, std::int32_t part, std::int32_t parts) {
  const std::int32_t first = all.begin / tile;
  const std::int32_t tiles = max(1, (all.end + tile - 1) / tile - first);
  const std::int32_t each = (tiles + parts - 1) / parts;
  const std::int32_t begin = part * each;
  return {first + begin, min(each, tiles - begin), (tiles + each - 1) / each};
}

__device__ inline float to_float(float v) { return v; }
__device__ inline float to_float(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ inline float to_float(__nv_fp8_e4m3 v) { return static_cast<float>(v); }
template <typename T>
__device__ T from_float(float v);
template <>
__device__ inline float from_float<float>(float v) {
  return v;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float v) {
  return __float2bfloat16_rn(v);
}
template <>
__device__ inline __nv_fp8_e4m3 from_float<__nv_fp8_e4m3>(float v) {
  return __nv_fp8_e4m3(v);  // to nearest even, clamped to 448, as the host does
}

/// A value of a cache, whatever its type; the branch is the same for all threads.
__device__ inline float cached(const void* cache, std::int32_t bytes, std::int64_t at) {
  if (bytes == 1) return to_float(static_cast<const __nv_fp8_e4m3*>(cache)[at]);
  if (bytes == 2) return to_float(static_cast<const __nv_bfloat16*>(cache)[at]);
  return static_cast<const float*>(cache)[at];
}
__device__ inline void put_cached(void* cache, std::int32_t bytes, std::int64_t at, float v) {
  if (bytes == 1)
    static_cast<__nv_fp8_e4m3*>(cache)[at] = from_float<__nv_fp8_e4m3>(v);
  else if (bytes == 2)
    static_cast<__nv_bfloat16*>(cache)[at] = from_float<__nv_bfloat16>(v);
  else
    static_cast<float*>(cache)[at] = v;
}

/// Largest of a warp, sum of a warp; the same in all lanes.
__device__ inline float warp_max(float v) {
  for (int d = 16; d > 0; d /= 2) v = fmaxf(v, __shfl_xor_sync(0xFFFFFFFFU, v, d));
  return v;
}
__device__ inline float warp_sum(float v) {
  for (int d = 16; d > 0; d /= 2) v += __shfl_xor_sync(0xFFFFFFFFU, v, d);
  return v;
}

}  // namespace specstep::cuda
