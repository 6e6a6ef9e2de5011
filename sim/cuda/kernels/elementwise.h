// Everything small: norms, activation, embedding, routing, combining, sampling, exchange of rows.
#pragma once

#include "sim/cuda/kernels/pass_meta.h"
#include "sim/cuda/kernels/product.h"

namespace specstep::cuda {

/// Rows scaled to root mean square one (epsilon 1e-6), times the gain. With `residual` the input is first added to it,
/// the sum rounded to Real and written back, and normed; with `in` null the residual itself is normed. from_row[r],
/// when given, is the row of the input and the residual that output row r comes from (a prompt's last token). Row r of
/// the input starts at in + r * in_stride; it holds `parts` parts of `width`, each normed alone (more than one: without
/// a residual). The output may be the input. Throws std::invalid_argument when there is nothing to norm.
struct NormCall {
  const void* in = nullptr;
  std::int64_t in_stride = 0;
  void* residual = nullptr;    // [*, width] dense
  const void* gain = nullptr;  // [width] Real
  void* out = nullptr;
  std::int64_t out_stride = 0;
  std::int64_t rows = 0, width = 0, parts = 1;
  const std::int32_t* from_row = nullptr;  // [rows]
  void* copy_residual = nullptr;           // [rows]: the residual after the sum, also written here (a draft's features)
  std::int64_t copy_stride = 0;
};
void rms_norm(const NormCall& call, Real real, cudaStream_t stream);
/// residual += in over all rows without a norm (rounded to Real).
void add_rows(void* residual, const void* in, std::int64_t values, Real real, cudaStream_t stream);

/// silu(gate) up: in [rows][2 width] -> out [rows][width].
void gated(const void* in, void* out, std::int64_t rows, std::int64_t width, Real real, cudaStream_t stream);

/// Rows of the table for tokens in [first, first + table.rows), zeros for others. The table is f32, bf16 or f16 without
/// scales; throws std::invalid_argument for other formats.
void embed(const StoredMatrix& table, std::int64_t first, const std::int32_t* tokens, std::int64_t count, void* out,
           std::int64_t out_stride, Real real, cudaStream_t stream);

/// The top_k best experts of each token (ties to the lower index), softmax over their scores as weights, and the pairs
/// sorted by this rank's experts: local expert = id - first_expert when within [0, local_experts). Pairs of an expert
/// ascend. A score that is not a number counts below all others. At most 1,024 experts, else std::invalid_argument.
struct RouteCall {
  const float* scores = nullptr;  // [tokens][experts]
  std::int64_t tokens = 0, experts = 0, top_k = 0;
  std::int64_t first_expert = 0, local_experts = 0;
  std::int32_t* ids = nullptr;  // [tokens][top_k], ascending ids
  float* weights = nullptr;     // [tokens][top_k]
  Grouping grouping{};
  std::int32_t* met = nullptr;  // one number: distinct local experts with any token; may be null
};
void route(const RouteCall& call, cudaStream_t stream);
/// Sorts pairs by expert again after an exchange: expert[pair] is an id, -1 for none. `met` as in RouteCall.
void group_pairs(const std::int32_t* expert, std::int64_t pairs, std::int64_t first_expert, std::int64_t local_experts,
                 const Grouping& grouping, cudaStream_t stream, std::int32_t* met = nullptr);

/// out[token] = shared[token] + sum over choices of weight expert_out[token * top_k + choice]; fp32, one rounding.
struct CombineCall {
  const void* expert_out = nullptr;  // [tokens * top_k][hidden]
  const float* weights = nullptr;
  const void* shared = nullptr;  // may be null
  void* out = nullptr;
  std::int64_t tokens = 0, top_k = 0, hidden = 0;
};
void combine(const CombineCall& call, Real real, cudaStream_t stream);

/// Index of the largest of the first `cols` values of each row, ties to the lower index; a value that is not a number
/// is below all others. With argmax_workspace(rows) bytes of `workspace` (aligned to 8) many blocks share a row;
/// without, one block takes a row, which for a few long rows is slower.
std::int64_t argmax_workspace(std::int64_t rows);
void argmax_rows(const void* logits, std::int64_t rows, std::int64_t stride, std::int64_t cols, std::int32_t* ids,
                 Real real, cudaStream_t stream, void* workspace = nullptr);

/// The acceptance walk of a verify pass: from node 0 on, the first child whose token is the target's choice at the
/// node. Parents come before their children. One warp a sequence. accepted[s]: nodes kept after the root; last[s]: the
/// token behind them.
struct WalkCall {
  const std::int32_t* choice = nullptr;   // [sequences][nodes] target's choice behind each node
  const std::int32_t* tokens = nullptr;   // [sequences][nodes]
  const std::int32_t* parents = nullptr;  // [sequences][nodes], -1 for the root
  std::int64_t sequences = 0, nodes = 0;
  std::int32_t* kept = nullptr;  // [sequences][nodes]: kept nodes from the root on, -1 behind them
  std::int32_t* accepted = nullptr;
  std::int32_t* last = nullptr;
};
void walk(const WalkCall& call, cudaStream_t stream);

/// Gathered parts [ranks][rows][cols] side by side: out [rows][ranks * cols].
void side_by_side(const void* parts, void* out, std::int64_t ranks, std::int64_t rows, std::int64_t cols, Real real,
                  cudaStream_t stream);

/// Moves rows of an expert-parallel exchange. dispatch: pair row -> slot (owner of its expert) * pairs + pair, with its
/// expert id beside it, -1 in every other slot, whose row is left as it was. gather: pair's row back from slot owner *
/// pairs + pair.
struct ExchangeRows {
  const void* rows = nullptr;         // dispatch: [tokens][hidden]; gather: [owners * pairs][hidden]
  const std::int32_t* ids = nullptr;  // [pairs] expert of each pair
  std::int64_t pairs = 0, top_k = 0, hidden = 0;
  std::int64_t experts_each = 0;  // experts of one owner
  std::int64_t owners = 0;
  void* out = nullptr;              // dispatch: [owners * pairs][hidden]; gather: [pairs][hidden]
  std::int32_t* out_ids = nullptr;  // dispatch: [owners * pairs]
};
void dispatch_rows(const ExchangeRows& call, Real real, cudaStream_t stream);
void gather_rows(const ExchangeRows& call, Real real, cudaStream_t stream);

}  // namespace specstep::cuda
