// The plan of a pass: ordered operations with their buffers and weights. A value that can be printed, counted,
// compared, priced and executed.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "model/cost.h"
#include "model/op.h"
#include "model/pass.h"

namespace specstep {

/// What a step does within its layer; together with the layer it is the step's label.
enum class StepKind {
  embed,
  embed_allreduce,
  fuse_features,
  embed_norm,
  hidden_norm,
  combine_features,
  attention_norm,
  qkv,
  qk_norm,
  qkv_a,
  q_a_norm,
  kv_a_norm,
  q_b,
  absorb_q,
  absorb_v,
  index_q,
  index_k,
  index,
  linear_in,
  linear_gates,
  linear_attention,
  rope,
  query_gather,
  context_gather,
  attention,
  sums_gather,
  join_parts,
  parts_scatter,
  o_proj,
  attention_allreduce,
  mlp_norm,
  mlp_gather,
  gate_up,
  activation,
  down,
  mlp_scatter,
  router,
  route,
  dispatch,
  expert_gate_up,
  expert_activation,
  expert_down,
  combine_experts,
  return_tokens,
  shared_gate_up,
  shared_activation,
  shared_down,
  mlp_allreduce,
  final_norm,
  head_gather,
  lm_head,
  logits_gather,
  sample,
};
std::string_view name_of(StepKind kind);

/// Streams of a step. Steps of one lane run in order; today every engine modelled runs one stream.
enum class Lane : std::uint8_t { compute, comm };

/// Values that steps hand to each other, [rows, cols]. One of each kind; layers reuse them.
enum class BufferKind : std::uint8_t {
  tokens,
  residual,
  normed,
  features,
  pair,
  qkv,
  latent,
  query,
  query_latent,
  group_query,
  cached_rows,
  sums,
  group_sums,
  index_query,
  index_key,
  selected,
  attended,
  projected,
  gate_up,
  activated,
  scores,
  routes,
  expert_gate_up,
  expert_activated,
  expert_out,
  shared_gate_up,
  shared_activated,
  shared_out,
  exchanged,
  logits_part,
  logits,
  ids,
};
std::string_view name_of(BufferKind kind);

struct Buffer {
  BufferKind kind{};
  std::int64_t rows = 0, cols = 0;
  double bytes_per_value = 2;
  double bytes() const { return static_cast<double>(rows) * static_cast<double>(cols) * bytes_per_value; }
  bool operator==(const Buffer&) const = default;
};

/// How a matrix is split: whole on each rank, by columns of the output, by rows of the input, or by expert.
enum class Shard : std::uint8_t { replicated, column, row, expert };

/// A stored matrix of one rank: `count` times [rows, cols] (count: heads of an absorbed product, local experts).
struct Weight {
  std::int32_t layer = -1;
  StepKind step{};
  std::int64_t count = 1, rows = 0, cols = 0;
  WeightFormat format;
  Shard shard = Shard::replicated;
  double bytes() const {
    return static_cast<double>(count) * static_cast<double>(rows) * static_cast<double>(cols) *
           format.bytes_per_value();
  }
};

inline constexpr std::int32_t no_index = -1;

struct Step {
  Op op;
  StepKind kind{};
  std::int32_t layer = no_index;  // no_index: outside the layers
  Lane lane = Lane::compute;
  std::int32_t weight = no_index;                                // index into Plan::weights; of a fused norm its gain
  std::array<std::int32_t, 3> in{no_index, no_index, no_index};  // indices into Plan::buffers
  std::int32_t out = no_index;
  /// "layer 12 o_proj"
  std::string label() const;
};

struct Plan {
  std::string model;
  PassShape shape;
  ParallelLayout layout;
  std::int64_t layers = 0;
  bool draft = false;  // a pass of the draft model
  std::vector<Buffer> buffers;
  std::vector<Weight> weights;
  std::vector<Step> steps;

  /// Sum of the work of all steps.
  Cost total() const;
  /// Bytes of all stored weights of one rank.
  double weight_memory() const;
};

/// What a plan's collectives are, counted by kind, place and size.
struct CollectiveCount {
  /// "allreduce in layers", "allreduce in layers, fused with rmsnorm", "allreduce of the embedding", ...
  std::string what;
  StepKind first{};
  std::int64_t count = 0;
  std::int64_t bytes = 0;  // payload of one
};
std::vector<CollectiveCount> count_collectives(const Plan& plan);

/// Throws std::logic_error when a step points outside the tables or shapes do not meet.
void check_well_formed(const Plan& plan);

/// Readable text. Equal consecutive layers are shown once with their range unless `every_layer`.
std::string plan_text(const Plan& plan, bool every_layer = false);
/// schema "specstep.plan/1": shape, layout, totals, collectives, buffers and every step.
nlohmann::ordered_json plan_json(const Plan& plan);

/// layer,step,op,shape,flops,weight_bytes,kv_bytes,activation_bytes,comm_bytes; one row a step.
std::string plan_csv(const Plan& plan);

/// One line on an operation: shapes in the field's notation.
std::string op_text(const Op& op);
/// "gemm", "allreduce", ...
std::string_view op_name(const Op& op);

}  // namespace specstep
