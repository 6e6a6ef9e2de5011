// all-gather, reduce-scatter and all-to-all by reading: every rank shows what it has, and between two barriers each
// takes what it is due.
#pragma once

#include "comm/cuda/own/device_group.h"
#include "comm/pricing.h"

namespace specstep::comm {

/// One piece of a collective: bytes [at, at + bytes) of every part.
struct ExchangeCall {
  Collective kind{};
  const void* from = nullptr;  // all_gather: one part; else one for each rank
  void* to = nullptr;          // reduce_scatter: one part; else one for each rank
  std::size_t part_bytes = 0;
  std::size_t at = 0;
  std::uint32_t bytes = 0;
  DType dtype = DType::bf16;
  std::int32_t site = 0;
};

/// Bytes of a piece at most: whole packs, so that pieces of aligned parts are aligned.
std::uint32_t largest_piece(const DeviceGroup& group, Collective kind);

void launch_exchange(const DeviceGroup& group, const ExchangeCall& call, const Grid& grid, cudaStream_t stream);

}  // namespace specstep::comm
