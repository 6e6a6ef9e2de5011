// Products with few rows over stored matrices of any format: experts, and dense matrices that cuBLAS cannot read.
#pragma once

#include "sim/cuda/kernels/stored.h"

namespace specstep::cuda {

/// Rows of each expert, on the device: pairs are (token, choice), pair = token * top_k + choice.
struct Grouping {
  std::int32_t* pair_of = nullptr;  // [pairs]: pairs sorted by local expert; those of other ranks are left out
  std::int32_t* begin = nullptr;    // [experts + 1]: first place of each expert in pair_of; [experts] is their number
  /// [1 + experts][2]: row 0 is {local experts that have any pair, begin[experts]}; row 1 + i is {the i-th of these
  /// experts, ascending; its first place in pair_of}. Rows behind them may hold anything. Aligned to 8 bytes. Products
  /// read only this and pair_of: experts without a pair cost nothing, and where to begin takes one load.
  std::int32_t* spans = nullptr;
};

/// out[pair, n] = in[pair / share, k] weight[expert of pair][n, k]^T for each pair of this rank. Rows of other ranks
/// are set to zero when `clear`. Offsets are read on the device, so a captured graph follows the router. `pairs` is
/// the capacity (tokens * top_k) and sets the grid. Accumulates in fp32. All ceil(pairs / share) rows of the input are
/// readable; those of no pair of this rank may hold anything.
struct GroupedProduct {
  const void* in = nullptr;
  std::int64_t in_stride = 0;  // values
  std::int64_t share = 1;
  void* out = nullptr;
  std::int64_t out_stride = 0;
  std::int64_t pairs = 0;
  Grouping grouping;
  StoredMatrix weight;  // count: local experts; rows n, cols k
  bool clear = false;
  /// The grouping was not written by the kernel before this one on the stream, but earlier: weights may be read while
  /// that one still runs. Kernels that begin early let the next one begin only once those before them have ended.
  bool settled = false;
};
void grouped_product(const GroupedProduct& call, Real real, cudaStream_t stream);

/// out[m, n] = in[m, k] weight[n, k]^T for stored formats other than Real's own. One matrix.
struct DenseProduct {
  const void* in = nullptr;
  std::int64_t in_stride = 0;
  void* out = nullptr;
  std::int64_t out_stride = 0;
  std::int64_t m = 0;
  StoredMatrix weight;
  bool f32_out = false;  // the router's scores
};
void dense_product(const DenseProduct& call, Real real, cudaStream_t stream);

}  // namespace specstep::cuda
