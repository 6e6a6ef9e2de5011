// A one-shot allreduce over NCCL's LL lines: every rank sends its packs to all, itself included, and sums what comes in
// the order of the ranks. Lines of 16 bytes hold 8 of data and the epoch twice; NCCL keeps two sets of them for each
// block, and their epoch in device memory, so that replays of a graph and other grids than before do no harm.
#include "comm/cuda/check.h"
#include "comm/cuda/nccl_dev.h"
#include "comm/cuda/own/device_memory.cuh"

namespace specstep::comm {

namespace {

/// One block's end of the lines. NCCL's receive looks for ever; ours gives up as the other backends do.
class Lines : public ncclLLA2ASession<ncclCoopCta> {
 public:
  __device__ Lines(const NcclDevGroup& group)
      : ncclLLA2ASession(ncclCoopCta(), group.nccl, ncclTeamLsa(group.nccl), group.lines, blockIdx.x,
                         group.nccl.nRanks * static_cast<int>(blockDim.x)) {}

  /// This thread's pack to every rank.
  __device__ void send(int rank, const Pack& pack) {
    bcast(place(rank), make_uint4(pack.word[0], pack.word[1], pack.word[2], pack.word[3]));
  }

  /// The packs that the same thread of every rank sent. False when the wait was given up.
  template <class Memory, int most>
  __device__ bool receive(Memory& memory, const protocol::Call& call, std::uint32_t index, Pack (&got)[most]) const {
    const auto* lines = static_cast<const uint4*>(ncclGetResourceBufferLocalPointer(comm, handle.bufHandle));
    lines += slotsOffset;
    protocol::Awaited what{0, protocol::Stage::data, index};
    return protocol::wait_for(memory, what, [&] {
      Pack low[most], high[most];
#pragma unroll
      for (int source = 0; source < most; ++source)
        if (source < call.ranks) {
          low[source] = load_system_pack(lines + place(source));
          high[source] = load_system_pack(lines + place(source) + pitch);
        }
      bool all = true;
#pragma unroll
      for (int source = most - 1; source >= 0; --source)
        if (source < call.ranks) {
          got[source] = {{low[source].word[0], low[source].word[2], high[source].word[0], high[source].word[2]}};
          const bool came = low[source].word[1] == epoch && low[source].word[3] == epoch &&
                            high[source].word[1] == epoch && high[source].word[3] == epoch;
          if (!came) what.rank = source;
          all = all && came;
        }
      return all;
    });
  }

 private:
  __device__ static int place(int source) {
    return source * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
  }
};

template <class Values, int most>
__global__ void __launch_bounds__(nccl_dev_threads)
    nccl_dev_kernel(const __grid_constant__ NcclDevGroup group, const __grid_constant__ OwnCall own_call) {
  DeviceMemory<Values, most> memory(group.group, own_call);
  const protocol::Call call = call_of(group.group, own_call);
  const protocol::Lane lane = memory.lane();
  Lines lines(group);
  std::uint32_t i = lane.first;
  Pack mine;  // loaded beside the epochs
  if (i < call.packs) mine = memory.take(call, i);
  if (!memory.all_agree(memory.usable())) return;
  if (i < call.packs) lines.send(call.rank, mine);
  memory.settled(lane);
  for (;;) {
    Pack got[most];
    const bool busy = i < call.packs;
    const bool came = !busy || lines.receive(memory, call, i, got);
    if (busy && came) {
      Values sum;
#pragma unroll
      for (int source = 0; source < most; ++source)
        if (source < call.ranks) sum.add(got[source]);
      memory.put(call, i, sum.rounded());
    }
    if (!memory.all_agree(came)) return;
    lines.endEpoch(ncclCoopCta());
    i += lane.step;
    if (i - threadIdx.x >= call.packs) return;
    if (i < call.packs) lines.send(call.rank, memory.take(call, i));
  }
}

template <class Values, int most>
struct NcclDevKernel {
  static void launch(const NcclDevGroup& group, const OwnCall& call, const Grid& grid, cudaStream_t stream) {
    nccl_dev_kernel<Values, most><<<grid.blocks, grid.threads, 0, stream>>>(group, call);
  }
};

}  // namespace

void launch_nccl_dev(const NcclDevGroup& group, const OwnCall& call, const Grid& grid, cudaStream_t stream) {
  for_values_and_ranks<NcclDevKernel>(call.dtype, group.group.capacity.ranks, group, call, grid, stream);
  check(cudaGetLastError(), "launching an allreduce");
}

}  // namespace specstep::comm
