#include "comm/cuda/check.h"
#include "comm/cuda/own/device_memory.cuh"
#include "comm/cuda/own/exchange.h"

namespace specstep::comm {

namespace {

/// What this rank shows of part `p`, and where peers read it. Room for a part is that of the piece, in whole packs.
__device__ std::byte* shown(const DeviceGroup& group, int rank, std::uint32_t piece_packs, int part) {
  return group.exchange[rank] + (static_cast<std::size_t>(part) * piece_packs) * sizeof(Pack);
}

template <class Values, int most>
__global__ void __launch_bounds__(512)
    exchange_kernel(const __grid_constant__ DeviceGroup group, const __grid_constant__ ExchangeCall call) {
  const OwnCall own{call.from, call.to, call.bytes, call.dtype, call.site};
  DeviceMemory<Values, most> memory(group, own);
  if (!memory.usable()) return;
  const protocol::Call each = call_of(group, own);
  const protocol::Lane lane = memory.lane();
  memory.settled(lane);
  const auto part_of = [&](const void* base, int part) {
    return static_cast<const std::byte*>(base) + static_cast<std::size_t>(part) * call.part_bytes + call.at;
  };
  const bool gathers = call.kind == Collective::all_gather;
  const int parts = gathers ? 1 : each.ranks;
  for (std::uint32_t i = lane.first; i < each.packs; i += lane.step)
    for (int part = 0; part < parts; ++part)
      store_system_pack(shown(group, each.rank, each.packs, part) + std::size_t{i} * sizeof(Pack),
                        load_values(part_of(call.from, part), call.bytes, i));
  if (!protocol::barrier(memory, each, lane, 0, protocol::Stage::start)) return;
  const int due = gathers ? 0 : each.rank;
  for (std::uint32_t i = lane.first; i < each.packs; i += lane.step) {
    const auto at = [&](int source) {
      return reinterpret_cast<const Pack*>(shown(group, source, each.packs, due)) + i;
    };
    if (call.kind == Collective::reduce_scatter) {
      store_values(static_cast<std::byte*>(call.to) + call.at, call.bytes, i, protocol::rotated_sum(memory, each, at));
      continue;
    }
    for (int k = 0; k < each.ranks; ++k) {
      const int source = protocol::later(each, k);
      store_values(const_cast<std::byte*>(part_of(call.to, source)), call.bytes, i, memory.read(at(source)));
    }
  }
  protocol::barrier(memory, each, lane, 1, protocol::Stage::end);
}

template <class Values, int most>
struct ExchangeKernel {
  static void launch(const DeviceGroup& group, const ExchangeCall& call, const Grid& grid, cudaStream_t stream) {
    exchange_kernel<Values, most><<<grid.blocks, grid.threads, 0, stream>>>(group, call);
  }
};

}  // namespace

std::uint32_t largest_piece(const DeviceGroup& group, Collective kind) {
  const std::size_t parts = kind == Collective::all_gather ? 1 : static_cast<std::size_t>(group.capacity.ranks);
  return static_cast<std::uint32_t>(group.exchange_bytes / parts / sizeof(Pack) * sizeof(Pack));
}

void launch_exchange(const DeviceGroup& group, const ExchangeCall& call, const Grid& grid, cudaStream_t stream) {
  for_values_and_ranks<ExchangeKernel>(call.dtype, group.capacity.ranks, group, call, grid, stream);
  check(cudaGetLastError(), "launching an exchange");
}

}  // namespace specstep::comm
