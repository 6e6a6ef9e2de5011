// Allreduces of rows that go on with the residual sum and the norm, as kernels get them.
#pragma once

#include "comm/cuda/device_comm.h"
#include "comm/cuda/own/device_group.h"
#include "comm/protocol/run_rows.h"

namespace specstep::comm {

inline constexpr int most_cluster = 8;  // blocks of a row at most: what every device with clusters allows

/// The part of a FusedNorm that follows the sum.
struct RowNorm {
  void* residual = nullptr;
  const void* gain = nullptr;
  void* out = nullptr;
  void* copy = nullptr;  // of the residual
  std::uint32_t rows = 1;
  std::uint32_t row_bytes = 0;
  std::size_t copy_bytes = 0;  // from one row of the copy to the next
  float width = 1;
  float epsilon = 0;
  int cluster = 1;  // blocks of a row
};
/// Rows [first, first + rows) of a call.
RowNorm rows_of(const FusedNorm& call, std::int64_t first, std::int64_t rows);
std::size_t row_bytes(const FusedNorm& call);

using LaunchFused = void (*)(const DeviceGroup&, const OwnCall&, const RowNorm&, const Grid&, cudaStream_t);

/// What a backend of our own tells of its kernel with a norm; without one it has none.
struct FusedKind {
  LaunchFused launch = nullptr;
  protocol::Shares shares = protocol::Shares::none;
  bool by_places = false;  // see protocol::by_places
};
/// Launches add_norm's kernels on nothing, so that they are loaded.
void load_add_norm(cudaStream_t stream);

FusedKind fused_push1(bool lines);
FusedKind fused_pull1();
FusedKind fused_rsag(bool pull);
FusedKind fused_island();

// Of a block. Where blocks are clusters, half as many: a cluster comes only where as many multiprocessors of one
// neighbourhood have room, and with two blocks to each there is always one, whatever the other ranks of a shared device
// wait with.
inline constexpr unsigned most_row_threads = 512;

/// Blocks for rows of `work` places each: as many a row as there are blocks for, while every warp has work.
struct RowGrid {
  Grid grid;
  int cluster = 1;
};
struct RowLimits {
  unsigned blocks = 1;  // of a grid
  int cluster = 1;
};
RowGrid row_grid(std::uint32_t rows, std::uint32_t work, const RowLimits& most);

}  // namespace specstep::comm
