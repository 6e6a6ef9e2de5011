// Which part of a whole matrix a rank holds.
#pragma once

#include "model/plan.h"
#include "sim/host/types.h"

namespace specstep::host {

struct Cut {
  std::vector<std::int64_t> matrices;  // of the whole set: heads of an absorbed product, experts
  std::vector<std::int64_t> rows;      // of the whole matrix, one for each local row; -1: padding, zeros
  std::int64_t first_col = 0;
  std::int64_t whole_cols = 0;
};

/// The part that `rank` holds of a weight of the plan. Fused matrices (q, k and v; gate and up) are cut part by part,
/// so that every layout is the same model.
Cut cut_of(const Plan& plan, const Weight& weight, int rank, const ModelView& model);

/// Key/value head (first of the local ones) that a rank of the attention group holds.
std::int64_t first_kv_head(const AttentionSpec& attention, std::int64_t ranks, std::int64_t rank);

}  // namespace specstep::host
