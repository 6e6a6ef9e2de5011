// The kernels behind attend(): one source each, so that they compile side by side.
#pragma once

#include "sim/cuda/kernels/attention_device.cuh"
#include "sim/cuda/kernels/stored.h"

namespace specstep::cuda {

/// What an instance on tensor cores needs; row_tiles 0: there is none for these sizes.
struct TensorNeeds {
  int row_tiles = 0, rows = 0;
  int round = 0;        // tokens that keep all warps of a block busy once
  int blocks_each = 0;  // of a multiprocessor
};
/// Largest instance with at most `row_tiles` times 16 rows that fits `shared_bytes` of a block.
TensorNeeds gqa_needs(std::int64_t head_dim, int row_tiles, int shared_bytes);
TensorNeeds mla_needs(std::int64_t score_dim, std::int64_t value_dim, int row_tiles, int shared_bytes);
void launch_gqa(const AttendParams& p, int row_tiles, dim3 grid, cudaStream_t stream);
void launch_mla(const AttendParams& p, int row_tiles, dim3 grid, cudaStream_t stream);

/// Launches a kernel of attention: the blocks of a group at once and, where the device can, while the kernel before
/// ends. `kernel` takes AttendParams.
struct PartLaunch {
  const void* kernel = nullptr;
  dim3 grid;
  unsigned threads = 0;
  int bytes = 0;  // of shared memory
};
void launch_parts(const PartLaunch& launch, AttendParams p, cudaStream_t stream);

/// Any sizes with value_dim up to 512, sums in fp32 one by one: the way of f32, and of sizes without an instance.
constexpr int scalar_rows = 8, scalar_tokens = 32;
void launch_scalar(const AttendParams& p, Real real, dim3 grid, cudaStream_t stream);

/// Joins the groups of all units of which more than one is active.
void launch_join(const AttendParams& p, Real real, cudaStream_t stream);

}  // namespace specstep::cuda
