// Tensor-core attention over a latent cache (mla, absorbed): rank 512 and 64 rotated values, as DeepSeek-V3 and the
// stacks after it have. All heads read the same row; its first 512 values are key and value.
#include "model/base/error.h"
#include "sim/cuda/kernels/attention_tensor_kernel.cuh"

namespace specstep::cuda {

namespace {

template <int RowTiles>
using Mla = TensorShape<576, 512, true, RowTiles>;

}  // namespace

TensorNeeds mla_needs(std::int64_t score_dim, std::int64_t value_dim, int row_tiles, int shared_bytes) {
  if (score_dim != Mla<1>::key_dim || value_dim != Mla<1>::value_dim) return {};
  if (row_tiles >= 2 && Mla<2>::whole_bytes <= shared_bytes) return needs_of<Mla<2>>();
  return Mla<1>::whole_bytes <= shared_bytes ? needs_of<Mla<1>>() : TensorNeeds{};
}

void launch_mla(const AttendParams& p, int row_tiles, dim3 grid, cudaStream_t stream) {
  if (row_tiles == 2) return launch_tensor<Mla<2>>(p, grid, stream);
  launch_tensor<Mla<1>>(p, grid, stream);
}

}  // namespace specstep::cuda
