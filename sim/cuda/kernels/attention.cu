// Attention of a step: which kernel, how many rows of a tile, how many parts of a cache.
#include <algorithm>
#include <string>

#include "comm/cuda/check.h"
#include "model/base/error.h"
#include "sim/cuda/kernels/attention.h"
#include "sim/cuda/kernels/attention_join.cuh"
#include "sim/cuda/kernels/attention_launch.h"
#include "sim/cuda/kernels/shared_memory.h"

namespace specstep::cuda {

namespace {

/// Blocks that fill a large GPU once: 15 clusters of 8 find a place on 132 multiprocessors. A constant, and without the
/// number of sequences, so that the batch does not decide in which parts a sequence is summed.
constexpr std::int64_t multiprocessors = 120;
/// Rounds of a block over its tokens from which on a second group pays, and those of a block of several groups.
constexpr std::int64_t rounds_alone = 6, rounds_of_many = 3;
/// Up to here more blocks of fewer rows are faster, though each reads the same cache.
constexpr std::int64_t short_context = 8192;
/// Launches that would need more counters join with a second kernel.
constexpr std::int64_t counters = counter_bytes / 4;

struct Split {
  TensorNeeds tensor;  // row_tiles 0: the plain kernel
  std::int64_t tile_rows = 0, row_tiles = 1, units = 1, cluster = 1, groups = 1;
  bool join_inside = false;

  std::int64_t parts() const { return cluster * groups; }
};

std::int64_t kv_heads_of(const Attention& op) {
  return op.kind == AttentionKind::mla ? 1 : op.cached_values / (2 * op.score_dim);
}

int of_device(cudaDeviceAttr what) {
  int device = 0, value = 0;
  comm::check(cudaGetDevice(&device), "attention: device");
  comm::check(cudaDeviceGetAttribute(&value, what, device), "attention: attribute of the device");
  return value;
}

std::int64_t ceil_of(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Blocks of a group and groups, for `rounds` rounds of one block and at most `blocks` blocks.
void divide(Split& split, std::int64_t rounds, std::int64_t blocks) {
  const std::int64_t most = std::max<std::int64_t>(1, blocks / split.units);
  if (split.tensor.row_tiles > 0 && of_device(cudaDevAttrClusterLaunch) != 0)
    while (split.cluster < largest_cluster && split.cluster * 2 <= most && split.cluster < rounds) split.cluster *= 2;
  const std::int64_t wanted =
      rounds <= rounds_alone * split.cluster && split.cluster > 1 ? 1 : ceil_of(rounds, split.cluster * rounds_of_many);
  split.groups = std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, most / split.cluster));
}

Split split_of(const Attention& op, Real real) {
  const std::int64_t entries = op.limit > 0 ? std::min(op.limit, op.context) + op.queries : op.context + op.queries;
  const std::int64_t kv_heads = kv_heads_of(op);
  const std::int64_t rows = op.heads / kv_heads * (op.queries_share_kv ? op.queries : 1);
  Split out;
  if (real == Real::bf16) {
    const int row_tiles = rows <= 16 || (entries <= short_context && rows <= 64) ? 1 : 2;
    const int shared = of_device(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    out.tensor = op.kind == AttentionKind::mla ? mla_needs(op.score_dim, op.value_dim, row_tiles, shared)
                                               : gqa_needs(op.score_dim, row_tiles, shared);
  }
  const bool tensor = out.tensor.row_tiles > 0;
  out.tile_rows = tensor ? out.tensor.rows : scalar_rows;
  out.row_tiles = ceil_of(rows, out.tile_rows);
  out.units = out.row_tiles * kv_heads * (op.queries_share_kv ? 1 : op.queries);
  divide(out, ceil_of(entries, tensor ? out.tensor.round : scalar_tokens),
         multiprocessors * (tensor ? out.tensor.blocks_each : 2));
  out.join_inside = out.groups <= (out.cluster > 1 ? groups_joined_inside : parts_joined_inside) &&
                    op.sequences * out.units * out.cluster <= counters;
  return out;
}

std::int64_t aligned(std::int64_t bytes) { return ceil_of(bytes, 256) * 256; }

/// Offsets in the workspace.
struct Layout {
  std::int64_t active = 0, stats = 0, partial = 0, end = 0;
};
Layout layout_of(const Split& s, std::int64_t sequences, std::int64_t value_dim) {
  Layout out;
  out.active = counter_bytes;
  if (s.groups == 1) return {out.active, out.active, out.active, out.active};
  const std::int64_t rows = sequences * s.units * s.groups * s.tile_rows;
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
  p.parts = narrow(split.parts());
  p.cluster = narrow(split.cluster);
  p.groups = narrow(split.groups);
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

void launch_parts(const PartLaunch& launch, AttendParams p, cudaStream_t stream) {
  allow_shared_memory(launch.kernel, launch.bytes, "attention");
  cudaLaunchAttribute attributes[2] = {};
  attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attributes[0].val.programmaticStreamSerializationAllowed = 1;
  attributes[1].id = cudaLaunchAttributeClusterDimension;
  attributes[1].val.clusterDim.x = attributes[1].val.clusterDim.z = 1;
  attributes[1].val.clusterDim.y = static_cast<unsigned>(p.cluster);
  cudaLaunchConfig_t config = {};
  config.gridDim = launch.grid;
  config.blockDim = dim3(launch.threads);
  config.dynamicSmemBytes = static_cast<std::size_t>(launch.bytes);
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = of_device(cudaDevAttrClusterLaunch) == 0 ? 0 : p.cluster > 1 ? 2 : 1;
  void* arguments[] = {&p};
  comm::check(cudaLaunchKernelExC(&config, launch.kernel, arguments), "attention: launch");
}

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
  const dim3 grid(static_cast<unsigned>(split.units), static_cast<unsigned>(split.parts()),
                  static_cast<unsigned>(meta.sequences));
  if (split.tensor.row_tiles == 0)
    launch_scalar(p, real, grid, stream);
  else if (p.mla)
    launch_mla(p, split.tensor.row_tiles, grid, stream);
  else
    launch_gqa(p, split.tensor.row_tiles, grid, stream);
  if (split.groups > 1 && !split.join_inside) launch_join(p, real, stream);
}

}  // namespace specstep::cuda
