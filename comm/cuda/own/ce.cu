// ce: copy engines move the data, on streams beside the caller's; kernels only sum and meet. For messages of megabytes.
// Where ranks share a device, a rank's kernel that waits has been seen to hold up copies of those it waits for. There
// the threads of one kernel copy, as in every other backend.
#include <algorithm>

#include "comm/cuda/handles.h"
#include "comm/cuda/own/own_comm.h"
#include "comm/cuda/own/own_kernel.cuh"
#include "comm/cuda/own_part.h"
#include "comm/cuda/rows.h"
#include "comm/footprint.h"

namespace specstep::comm {

namespace {

using protocol::Shard;

template <class Values, int most>
__global__ void __launch_bounds__(512)
    sum_copies_kernel(const __grid_constant__ DeviceGroup group, const __grid_constant__ OwnCall call) {
  DeviceMemory<Values, most> memory(group, call);
  if (!memory.usable()) return;
  protocol::sum_copies(memory, call_of(group, call), memory.lane());
}

template <class Values, int most>
struct SumCopies {
  static void launch(const DeviceGroup& group, const OwnCall& call, const Grid& grid, cudaStream_t stream) {
    sum_copies_kernel<Values, most><<<grid.blocks, grid.threads, 0, stream>>>(group, call);
  }
};

template <class Values>
__global__ void meet_copies_kernel(const __grid_constant__ DeviceGroup group, const __grid_constant__ OwnCall call) {
  DeviceMemory<Values, most_own_ranks> memory(group, call);
  if (!memory.usable()) return;
  protocol::meet_copies(memory, call_of(group, call), memory.lane());
}

void launch_meeting(const DeviceGroup& group, const OwnCall& call, cudaStream_t stream) {
  meet_copies_kernel<protocol::F32Sum><<<1, 32, 0, stream>>>(group, call);
  check(cudaGetLastError(), "launching a meeting");
}

void launch_sum(const DeviceGroup& group, const OwnCall& call, const Grid& grid, cudaStream_t stream) {
  for_values_and_ranks<SumCopies>(call.dtype, group.capacity.ranks, group, call, grid, stream);
  check(cudaGetLastError(), "launching the sum of an allreduce");
}

Event make_marker() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
  return Event(event);
}

class CopyEngineComm final : public OwnComm {
 public:
  CopyEngineComm(const OwnKind& kind, const CommRequest& request, Bootstrap& group) : OwnComm(kind, request, group) {
    for (int s = 0; s < std::min(group.ranks() - 1, most_sides); ++s) sides_.push_back({make_stream(), make_marker()});
    forked_ = make_marker();
    // The first copy between two places may need kernels of the driver, and the other device: not while ranks wait on
    // it.
    const DeviceGroup& all = device_group();
    const auto& own = all.inbox[group.rank()];
    const Stream stream = make_stream();
    for (int rank = 0; rank < group.ranks(); ++rank)
      copy(all.inbox[rank].gathered + group.rank(), own.reduced, sizeof(Pack), stream.get());
    launch_meeting(retired_group(), {nullptr, nullptr, 16, DType::f32, 0}, stream.get());
    check(cudaStreamSynchronize(stream.get()), "trying a copy");
    group.barrier("copies were tried");
    check_own_sums();
  }

  void all_reduce(void* values, std::int64_t count, DType dtype, cudaStream_t stream) override {
    const std::size_t bytes = value_bytes(count, dtype);
    const std::int32_t site = next_site();
    for (std::size_t at = 0; at < bytes; at += largest_bytes()) {
      std::byte* piece = static_cast<std::byte*>(values) + at;
      sum_piece(
          {piece, piece, static_cast<std::uint32_t>(std::min<std::size_t>(bytes - at, largest_bytes())), dtype, site},
          stream);
    }
  }

 private:
  static constexpr int most_sides = 4;
  struct Side {
    Stream stream;
    Event done;
  };

  void sum_piece(const OwnCall& call, cudaStream_t stream) {
    const DeviceGroup& group = device_group();
    const int ranks = group.capacity.ranks;
    const auto packs = static_cast<std::uint32_t>((call.bytes + sizeof(Pack) - 1) / sizeof(Pack));
    const std::uint32_t stride = protocol::shard_packs(group.capacity.packs, ranks);
    const auto bytes_of = [&](const Shard& shard) {
      const std::size_t begin = shard.begin * sizeof(Pack);
      return std::min<std::size_t>(shard.count * sizeof(Pack), call.bytes - std::min<std::size_t>(begin, call.bytes));
    };
    const auto* in = static_cast<const std::byte*>(call.in);
    auto* out = static_cast<std::byte*>(call.out);

    with_others(stream, [&](int owner, cudaStream_t side) {
      const Shard shard = protocol::shard_of(packs, ranks, owner);
      copy(group.inbox[owner].parts + protocol::slot(0, ranks, group.rank, stride, 0), in + shard.begin * sizeof(Pack),
           bytes_of(shard), side);
    });
    launch_sum(group, call, grid_for(protocol::shard_packs(packs, ranks)), stream);
    const Shard mine = protocol::shard_of(packs, ranks, group.rank);
    const std::size_t begin = std::min<std::size_t>(mine.begin * sizeof(Pack), call.bytes),
                      end = begin + bytes_of(mine);
    with_others(stream, [&](int other, cudaStream_t side) {
      copy(group.inbox[other].gathered + mine.begin, group.inbox[group.rank].reduced, bytes_of(mine), side);
    });
    launch_meeting(group, call, stream);
    const auto* gathered = reinterpret_cast<const std::byte*>(group.inbox[group.rank].gathered);
    copy(out, gathered, begin, stream);
    copy(out + end, gathered + end, call.bytes - end, stream);
  }

  static void copy(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
    if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "copying a shard");
  }

  /// Calls work(rank, stream) for each other rank, on the side streams in turn; the caller's stream goes on when all of
  /// it is done. Each rank begins with another one. In a rehearsal nobody else's memory is written.
  template <class Work>
  void with_others(cudaStream_t stream, Work work) {
    if (rehearses()) return;
    const DeviceGroup& group = device_group();
    const int ranks = group.capacity.ranks;
    check(cudaEventRecord(forked_.get(), stream), "forking");
    for (const Side& side : sides_) check(cudaStreamWaitEvent(side.stream.get(), forked_.get()), "forking");
    for (int k = 1; k < ranks; ++k) {
      const std::size_t turn = static_cast<std::size_t>(k - 1);
      work((group.rank + k) % ranks, sides_[turn % sides_.size()].stream.get());
    }
    for (const Side& side : sides_) {
      check(cudaEventRecord(side.done.get(), side.stream.get()), "joining");
      check(cudaStreamWaitEvent(stream, side.done.get()), "joining");
    }
  }

  std::vector<Side> sides_;
  Event forked_;
};

}  // namespace

std::unique_ptr<DeviceComm> open_ce(const CommRequest& request, Bootstrap& group) {
  OwnKind kind{.id = "ce", .inbox_bytes = std::size_t{64} << 20};
  kind.regions = own_regions("ce", request.own, 1);
  const std::string sums = "fp32 sums in rank order, rounded once; equal bits on all ranks and in every run";
  if (any_device_is_shared(group)) {
    kind.launch = launch_own<protocol::Protocol::copied_two_stage>;
    kind.note = "ranks share a GPU, so a kernel copies instead of copy engines; " + sums;
    return std::make_unique<OwnComm>(kind, request, group);
  }
  kind.launch = launch_sum;
  kind.sums_otherwise = true;
  kind.note = "copies by copy engines; " + sums;
  return std::make_unique<CopyEngineComm>(kind, request, group);
}

}  // namespace specstep::comm
