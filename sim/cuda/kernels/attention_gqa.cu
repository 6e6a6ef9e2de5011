// Tensor-core attention with keys and values of their own: head sizes 64 and 128.
#include "model/base/error.h"
#include "sim/cuda/kernels/attention_tensor_kernel.cuh"

namespace specstep::cuda {

namespace {

template <int Dim, int RowTiles>
using Gqa = TensorShape<Dim, Dim, false, RowTiles>;

template <int Dim>
TensorNeeds needs(int row_tiles, int shared_bytes) {
  if (row_tiles >= 4 && Gqa<Dim, 4>::whole_bytes <= shared_bytes) return needs_of<Gqa<Dim, 4>>();
  if (row_tiles >= 2 && Gqa<Dim, 2>::whole_bytes <= shared_bytes) return needs_of<Gqa<Dim, 2>>();
  return Gqa<Dim, 1>::whole_bytes <= shared_bytes ? needs_of<Gqa<Dim, 1>>() : TensorNeeds{};
}

template <int Dim>
void launch(const AttendParams& p, int row_tiles, dim3 grid, cudaStream_t stream) {
  if (row_tiles == 4) return launch_tensor<Gqa<Dim, 4>>(p, grid, stream);
  if (row_tiles == 2) return launch_tensor<Gqa<Dim, 2>>(p, grid, stream);
  launch_tensor<Gqa<Dim, 1>>(p, grid, stream);
}

}  // namespace

TensorNeeds gqa_needs(std::int64_t head_dim, int row_tiles, int shared_bytes) {
  if (head_dim == 128) return needs<128>(row_tiles, shared_bytes);
  if (head_dim == 64) return needs<64>(row_tiles, shared_bytes);
  return {};
}

void launch_gqa(const AttendParams& p, int row_tiles, dim3 grid, cudaStream_t stream) {
  if (p.score_dim == 128) return launch<128>(p, row_tiles, grid, stream);
  if (p.score_dim == 64) return launch<64>(p, row_tiles, grid, stream);
  throw Error("attention: no tensor-core kernel of this head size");
}

}  // namespace specstep::cuda
