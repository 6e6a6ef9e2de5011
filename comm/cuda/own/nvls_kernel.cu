#include "comm/cuda/own/device_memory.cuh"
#include "comm/cuda/own/nvls_kernel.h"

namespace specstep::comm {

namespace {

__device__ Pack switch_sum(const protocol::Bf16Sum*, const void* p) {
  Pack v;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.bf16x2 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(p)
               : "memory");
  return v;
}
__device__ Pack switch_sum(const F16Sum*, const void* p) {
  Pack v;
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.acc::f32.v4.f16x2 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(p)
               : "memory");
  return v;
}
__device__ Pack switch_sum(const protocol::F32Sum*, const void* p) {
  float v[4];
  asm volatile("multimem.ld_reduce.relaxed.sys.global.add.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "l"(p)
               : "memory");
  return {{__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3])}};
}
/// The same bits to all ranks, whatever they mean.
__device__ void store_to_all(void* p, const Pack& v) {
  asm volatile("multimem.st.relaxed.sys.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p),
               "f"(__uint_as_float(v.word[0])), "f"(__uint_as_float(v.word[1])), "f"(__uint_as_float(v.word[2])),
               "f"(__uint_as_float(v.word[3]))
               : "memory");
}
/// Between accesses by the two addresses of one memory.
__device__ void fence_addresses() { asm volatile("fence.proxy.alias;" ::: "memory"); }

/// Places of a lane in every shard: the same on all ranks, so that a block's flag covers what its peers' blocks read.
template <class Work>
__device__ void for_own_places(const protocol::Call& call, const protocol::Lane& lane, Work work) {
  for (int owner = 0; owner < call.ranks; ++owner) {
    const protocol::Shard shard = protocol::shard_of(call.packs, call.ranks, owner);
    for (std::uint32_t j = lane.first; j < shard.count; j += lane.step) work(shard.begin + j);
  }
}

/// The first barrier says that all values lie in the memory, the second that all sums do. What a rank takes from it
/// stays until the next call's first barrier.
template <class Values, int most>
__global__ void __launch_bounds__(512)
    nvls_kernel(const __grid_constant__ DeviceGroup group, const __grid_constant__ OwnCall own,
                const __grid_constant__ SwitchMemory values) {
  DeviceMemory<Values, most> memory(group, own);
  if (!memory.usable()) return;
  const protocol::Call call = call_of(group, own);
  const protocol::Lane lane = memory.lane();
  auto* mine = reinterpret_cast<Pack*>(values.own);
  auto* all = reinterpret_cast<Pack*>(values.all);
  memory.settled(lane);
  for_own_places(call, lane, [&](std::uint32_t i) { memory.write(mine + i, memory.take(call, i)); });
  fence_addresses();
  if (!protocol::barrier(memory, call, lane, 0, protocol::Stage::start)) return;
  fence_addresses();
  const protocol::Shard shard = protocol::shard_of(call.packs, call.ranks, call.rank);
  for (std::uint32_t j = lane.first; j < shard.count; j += lane.step)
    store_to_all(all + shard.begin + j, switch_sum(static_cast<const Values*>(nullptr), all + shard.begin + j));
  fence_addresses();
  if (!protocol::barrier(memory, call, lane, 1, protocol::Stage::middle)) return;
  fence_addresses();
  for_own_places(call, lane, [&](std::uint32_t i) { memory.put(call, i, memory.read(mine + i)); });
}

template <class Values, int most>
struct NvlsKernel {
  static void launch(const DeviceGroup& group, const OwnCall& call, const SwitchMemory& memory, const Grid& grid,
                     cudaStream_t stream) {
    nvls_kernel<Values, most><<<grid.blocks, grid.threads, 0, stream>>>(group, call, memory);
  }
};

}  // namespace

cudaError_t launch_nvls(const DeviceGroup& group, const OwnCall& call, const SwitchMemory& memory, const Grid& grid,
                        cudaStream_t stream) {
  for_values_and_ranks<NvlsKernel>(call.dtype, group.capacity.ranks, group, call, memory, grid, stream);
  return cudaGetLastError();
}

}  // namespace specstep::comm
