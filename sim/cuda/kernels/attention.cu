// Attention of a step: which kernel, how many rows of a tile, how many parts of a cache.
#include <algorithm>
#include <string>

#include "comm/cuda/check.h"
#include "model/base/error.h"
#include "sim/cuda/kernels/attention.h"
#include "sim/cuda/kernels/attention_launch.h"

namespace specstep::cuda {

namespace {

/// Blocks that fill a large GPU (132 multiprocessors) once. A constant, and without the number of sequences, so that
/// neither the device nor the batch decides in which parts a sequence is summed.
constexpr std::int64_t multiprocessors = 132;
/// Contexts up to here take few parts, joined by the last block: one kernel.
constexpr std::int64_t short_context = 1024;
constexpr std::int64_t short_part = 64, long_part = 128;  // least tokens of a part
/// Launches with more units than counters join with a second kernel.
constexpr std::int64_t counters = counter_bytes / 4;

struct Split {
  TensorNeeds tensor;  // row_tiles 0: the plain kernel
  std::int64_t tile_rows = 0, row_tiles = 1, units = 1, parts = 1;
  bool join_inside = false;
};

std::int64_t kv_heads_of(const Attention& op) {
  return op.kind == AttentionKind::mla ? 1 : op.cached_values / (2 * op.score_dim);
}

int shared_bytes_of_block() {
  int device = 0, bytes = 0;
  comm::check(cudaGetDevice(&device), "attention: device");
  comm::check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
              "attention: shared memory of the device");
  return bytes;
}

std::int64_t parts_of(std::int64_t entries, std::int64_t units, std::int64_t blocks) {
  const std::int64_t most = std::max<std::int64_t>(1, blocks / units);
  std::int64_t parts = (entries + short_part - 1) / short_part;
  if (parts > parts_joined_inside)
    parts = std::max<std::int64_t>(parts_joined_inside, (entries + long_part - 1) / long_part);
  return std::min(parts, most);
}

Split split_of(const Attention& op, Real real) {
  const std::int64_t entries = op.limit > 0 ? std::min(op.limit, op.context) + op.queries : op.context + op.queries;
  const std::int64_t kv_heads = kv_heads_of(op);
  const std::int64_t rows = op.heads / kv_heads * (op.queries_share_kv ? op.queries : 1);
  Split out;
  if (real == Real::bf16) {
    // Few tokens: more blocks with fewer rows, each joined by its last block, are faster than few with many.
    const bool narrow = rows <= 16 || (entries <= short_context && rows <= 64);
    const int row_tiles = narrow ? 1 : rows <= 32 ? 2 : 4;
    const int shared = shared_bytes_of_block();
    out.tensor = op.kind == AttentionKind::mla ? mla_needs(op.score_dim, op.value_dim, row_tiles, shared)
                                               : gqa_needs(op.score_dim, row_tiles, shared);
  }
  const bool tensor = out.tensor.row_tiles > 0;
  out.tile_rows = tensor ? out.tensor.rows : scalar_rows;
  out.row_tiles = (rows + out.tile_rows - 1) / out.tile_rows;
  out.units = out.row_tiles * kv_heads * (op.queries_share_kv ? 1 : op.queries);
  out.parts = parts_of(entries, out.units, multiprocessors * (tensor ? out.tensor.blocks_each : 2));
  out.join_inside = out.parts <= parts_joined_inside && op.sequences * out.units <= counters;
  return out;
}

std::int64_t aligned(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// Offsets in the workspace.
struct Layout {
  std::int64_t active = 0, stats = 0, partial = 0, end = 0;
};
Layout layout_of(const Split& s, std::int64_t sequences, std::int64_t value_dim) {
  Layout out;
  out.active = counter_bytes;
  if (s.parts == 1) return {out.active, out.active, out.active, out.active};
  const std::int64_t rows = sequences * s.units * s.parts * s.tile_rows;
  out.stats = out.active + aligned(sequences * s.units * 4);
  out.partial = out.stats + aligned(rows * 8);
  out.end = out.partial + aligned(rows * value_dim * 4);
  return out;
}

void check_call(const AttentionCall& call, const Cache& cache, const PassMeta& meta, Real real) {
  const Attention& op = call.op;
  const auto refuse = [](const char* what) { throw Error(std::string("attention: ") + what); };
  if (meta.sequences != op.sequences || meta.tokens_each != op.queries) refuse("pass and operation differ in tokens");
  if (cache.values != op.cached_values) refuse("the cache's rows are not those of the operation");
  if (cache.dtype != DType::fp8 && cache.dtype != (real == Real::f32 ? DType::f32 : DType::bf16))
    refuse("the cache holds neither the type of the activations nor fp8");
  if (op.value_dim > 512 || op.value_dim % 4 != 0) refuse("value_dim is no multiple of 4 up to 512");
  if (kv_heads_of(op) < 1 || op.heads % kv_heads_of(op) != 0) refuse("heads do not fall on the cached heads");
  if (op.kind == AttentionKind::mla && call.rope_dim != op.score_dim - op.value_dim)
    refuse("the rotated part is not what a score has beyond the latent");
  if (real == Real::bf16 && call.nope_dim % 8 != 0 && op.value_dim == 512)
    refuse("its kernel reads rotated parts that begin at multiples of eight values");
  if (call.selected && (op.queries_share_kv || op.limit < 1)) refuse("queries with places of their own cannot share");
  if (op.sequences > 65535) refuse("more than 65535 sequences");
}

AttendParams params_of(const AttentionCall& call, const Cache& cache, const PassMeta& meta, const Split& split) {
  const Attention& op = call.op;
  const auto narrow = [](std::int64_t v) { return static_cast<std::int32_t>(v); };
  AttendParams p;
  p.meta = meta;
  p.query = call.query;
  p.rotated = call.rotated;
  p.mla = op.kind == AttentionKind::mla;
  p.query_stride = call.query_stride > 0 ? call.query_stride : op.heads * op.value_dim;
  p.rotated_stride = op.heads * (call.nope_dim + call.rope_dim);
  p.nope_dim = narrow(call.nope_dim);
  p.rope_dim = narrow(call.rope_dim);
  p.selected = call.selected;
  p.limit = narrow(op.limit);
  p.heads = narrow(op.heads);
  p.kv_heads = narrow(kv_heads_of(op));
  p.score_dim = narrow(op.score_dim);
  p.value_dim = narrow(op.value_dim);
  p.per_query = !op.queries_share_kv;
  p.cache = cache.rows;
  p.cache_values = narrow(cache.values);
  p.cache_bytes = cache.dtype == DType::fp8 ? 1 : cache.dtype == DType::bf16 ? 2 : 4;
  p.value_col = p.mla ? 0 : p.kv_heads * p.score_dim;
  p.out = call.out;
  p.scale = call.scale;
  p.tile_rows = narrow(split.tile_rows);
  p.row_tiles = narrow(split.row_tiles);
  p.units = narrow(split.units);
  p.parts = narrow(split.parts);
  p.join_inside = split.join_inside;
  const Layout at = layout_of(split, op.sequences, op.value_dim);
  char* workspace = static_cast<char*>(call.workspace);
  p.arrived = reinterpret_cast<std::uint32_t*>(workspace);
  p.active = reinterpret_cast<std::int32_t*>(workspace + at.active);
  p.stats = reinterpret_cast<float2*>(workspace + at.stats);
  p.partial = reinterpret_cast<float*>(workspace + at.partial);
  return p;
}

}  // namespace

std::int64_t attention_workspace(const Attention& op) {
  std::int64_t most = 0;
  for (const Real real : {Real::f32, Real::bf16})
    most = std::max(most, layout_of(split_of(op, real), op.sequences, op.value_dim).end);
  return most;
}

void attend(const AttentionCall& call, const Cache& cache, const PassMeta& meta, Real real, cudaStream_t stream) {
  check_call(call, cache, meta, real);
  if (meta.count() == 0) return;
  const Split split = split_of(call.op, real);
  const AttendParams p = params_of(call, cache, meta, split);
  const dim3 grid(static_cast<unsigned>(split.units), static_cast<unsigned>(split.parts),
                  static_cast<unsigned>(meta.sequences));
  if (split.tensor.row_tiles == 0)
    launch_scalar(p, real, grid, stream);
  else if (p.mla)
    launch_mla(p, split.tensor.row_tiles, grid, stream);
  else
    launch_gqa(p, split.tensor.row_tiles, grid, stream);
  if (split.parts > 1 && !split.join_inside) launch_join(p, real, stream);
}

}  // namespace specstep::cuda
