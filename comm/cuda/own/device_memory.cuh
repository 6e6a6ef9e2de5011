// The memory policy of devices (see comm/protocol/memory.h), and how a kernel runs a protocol with it.
#pragma once

#include <cuda_fp16.h>

#include "comm/cuda/own/device_group.h"
#include "comm/protocol/two_stage.h"

namespace specstep::comm {

using protocol::Pack;

/// fp32 sums of the eight f16 values of a pack, rounded once.
struct F16Sum {
  static constexpr std::uint32_t negative_zeros = protocol::negative_zero_halves;
  float value[8] = {0, 0, 0, 0, 0, 0, 0, 0};

  __device__ void add(const Pack& pack) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      value[2 * w] += __half2float(__ushort_as_half(static_cast<unsigned short>(pack.word[w] & 0xFFFFU)));
      value[2 * w + 1] += __half2float(__ushort_as_half(static_cast<unsigned short>(pack.word[w] >> 16)));
    }
  }
  __device__ static std::uint32_t bits(float v) {
    const std::uint32_t half = __half_as_ushort(__float2half_rn(v));
    return half == 0x8000U ? 0U : half;
  }
  __device__ Pack rounded() const {
    Pack out;
#pragma unroll
    for (int w = 0; w < 4; ++w) out.word[w] = bits(value[2 * w]) | (bits(value[2 * w + 1]) << 16);
    return out;
  }
};

__device__ inline std::uint32_t load_system(const std::uint32_t* p) {
  std::uint32_t v;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ inline Pack load_system_pack(const void* p) {
  Pack v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(p)
               : "memory");
  return v;
}
__device__ inline void store_system_pack(void* p, const Pack& v) {
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.word[0]), "r"(v.word[1]),
               "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}
__device__ inline std::uint64_t now_nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

/// Memory of a caller, of which the last pack may be short, and which need not begin at 16 bytes. Values have 2 bytes
/// or 4, and begin at a multiple of them.
__device__ inline Pack load_values(const void* values, std::uint32_t bytes, std::uint32_t i) {
  const auto* from = static_cast<const std::byte*>(values) + std::size_t{i} * sizeof(Pack);
  const std::uint32_t left = bytes - i * static_cast<std::uint32_t>(sizeof(Pack));
  if (left >= sizeof(Pack) && reinterpret_cast<std::uintptr_t>(from) % sizeof(Pack) == 0) {
    const uint4 v = *reinterpret_cast<const uint4*>(from);
    return {{v.x, v.y, v.z, v.w}};
  }
  Pack out;
  const auto* halves = reinterpret_cast<const std::uint16_t*>(from);
#pragma unroll
  for (std::uint32_t h = 0; h < 8; ++h)
    if (2 * h < left) out.word[h / 2] |= static_cast<std::uint32_t>(halves[h]) << (16 * (h % 2));
  return out;
}
__device__ inline void store_values(void* values, std::uint32_t bytes, std::uint32_t i, const Pack& pack) {
  auto* to = static_cast<std::byte*>(values) + std::size_t{i} * sizeof(Pack);
  const std::uint32_t left = bytes - i * static_cast<std::uint32_t>(sizeof(Pack));
  if (left >= sizeof(Pack) && reinterpret_cast<std::uintptr_t>(to) % sizeof(Pack) == 0) {
    *reinterpret_cast<uint4*>(to) = make_uint4(pack.word[0], pack.word[1], pack.word[2], pack.word[3]);
    return;
  }
  auto* halves = reinterpret_cast<std::uint16_t*>(to);
#pragma unroll
  for (std::uint32_t h = 0; h < 8; ++h)
    if (2 * h < left) halves[h] = static_cast<std::uint16_t>(pack.word[h / 2] >> (16 * (h % 2)));
}

/// The view that one thread has of a call.
template <class Values, int most>
class DeviceMemory {
 public:
  using Word = std::uint32_t;
  using Pair = std::uint64_t;
  using Sum = Values;
  static constexpr int most_ranks = most;
  static constexpr int lanes_of_group = 16;  // half a warp
  static constexpr std::uint32_t spins_between_checks = 1U << 16;

  __device__ DeviceMemory(const DeviceGroup& group, const OwnCall& call) : group_(group), call_(call) {
    asm volatile("ld.relaxed.sys.global.v2.u32 {%0, %1}, [%2];"
                 : "=r"(epoch_), "=r"(aborted_)
                 : "l"(group.inbox[group.rank].epoch)
                 : "memory");
    epoch_ = protocol::next_epoch(epoch_);
  }

  /// False after a failure: nobody answers any more.
  __device__ bool usable() const { return aborted_ == 0; }
  __device__ protocol::Lane lane() const {
    return {blockIdx.x * blockDim.x + threadIdx.x, gridDim.x * blockDim.x, blockIdx.x, epoch_};
  }

  __device__ const auto& own() const { return group_.inbox[group_.rank]; }
  __device__ const auto& peer(int rank) const { return group_.inbox[rank]; }
  __device__ const protocol::Capacity& capacity() const { return group_.capacity; }
  __device__ const protocol::IslandPlan& islands() const { return group_.islands; }

  __device__ static std::uint32_t load(const Word* w) {
    std::uint32_t v;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(w) : "memory");
    return v;
  }
  __device__ static void store(Word* w, std::uint32_t v) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(w), "r"(v) : "memory");
  }
  __device__ static Pack load_pack(const Word* w) { return load_system_pack(w); }
  __device__ static void store_pack(Word* w, const Pack& pack) { store_system_pack(w, pack); }
  __device__ static void store_halves(Pair* a, Pair* b, const Pack& pack, std::uint32_t epoch) {
    store_system_pack(a, {{pack.word[0], epoch, pack.word[1], epoch}});
    store_system_pack(b, {{pack.word[2], epoch, pack.word[3], epoch}});
  }
  __device__ static bool load_halves(const Pair* a, const Pair* b, std::uint32_t epoch, Pack& pack) {
    const Pack low = load_system_pack(a);
    const Pack high = load_system_pack(b);
    pack = {{low.word[0], low.word[2], high.word[0], high.word[2]}};
    return low.word[1] == epoch && low.word[3] == epoch && high.word[1] == epoch && high.word[3] == epoch;
  }
  __device__ static void store_line(Pair* line, const Pack& pack, std::uint32_t epoch) {
    store_halves(line, line + 2, pack, epoch);
  }
  __device__ static bool load_line(const Pair* line, std::uint32_t epoch, Pack& pack) {
    return load_halves(line, line + 2, epoch, pack);
  }
  __device__ static Pack read(const Pack* p) { return load_system_pack(p); }
  __device__ static void write(Pack* p, const Pack& v) { store_system_pack(p, v); }
  __device__ Pack take(const protocol::Call&, std::uint32_t i) const { return load_values(call_.in, call_.bytes, i); }
  __device__ void put(const protocol::Call&, std::uint32_t i, const Pack& v) const {
    store_values(call_.out, call_.bytes, i, v);
  }
  __device__ void expose(const protocol::Call& call, std::uint32_t i) const {
    store_system_pack(const_cast<Pack*>(own().input) + i, take(call, i));
  }
  template <class F>
  __device__ static void for_peers(int ranks, F f) {
    if (threadIdx.x < static_cast<unsigned>(ranks)) f(static_cast<int>(threadIdx.x));
  }
  __device__ static unsigned group_mask() { return 0xFFFFU << (threadIdx.x & 16U); }
  __device__ static std::uint32_t greatest(std::uint32_t v) { return __reduce_max_sync(group_mask(), v); }
  __device__ static bool group_agrees(bool ok) { return __all_sync(group_mask(), ok) != 0; }
  __device__ static bool all_agree(bool ok) { return __syncthreads_and(ok) != 0; }
  __device__ static void pause() {}

  /// All threads of the block have read the epoch; the last block that says so moves it on.
  __device__ void settled(const protocol::Lane& lane) const {
    __syncthreads();
    if (threadIdx.x != 0) return;
    if (atomicAdd(own().entered, 1U) + 1 != gridDim.x) return;
    *own().entered = 0;
    *own().epoch = lane.epoch;
  }

  __device__ bool give_up(const protocol::Awaited& what) {
    const std::uint64_t now = now_nanoseconds();
    if (since_ == 0) since_ = now;
    if (load_system(group_.abort) != 0) return true;
    if (now - since_ < group_.limit_ns && load_system(group_.host_abort) == 0) return false;
    if (atomicCAS(group_.abort, 0U, 1U) == 0U) {
      WaitReport& report = *group_.report;
      report.site = call_.site;
      report.epoch = epoch_;
      report.what = what;
      __threadfence_system();
      *static_cast<volatile std::uint32_t*>(&report.valid) = 1;
    }
    return true;
  }

 private:
  const DeviceGroup& group_;
  const OwnCall& call_;
  std::uint32_t epoch_ = 0, aborted_ = 0;
  std::uint64_t since_ = 0;  // the first look at the clock of any wait of this thread
};

/// A call as the protocols see it.
__device__ inline protocol::Call call_of(const DeviceGroup& group, const OwnCall& call) {
  return {call.site,
          group.rank,
          group.capacity.ranks,
          (call.bytes + static_cast<std::uint32_t>(sizeof(Pack)) - 1) / static_cast<std::uint32_t>(sizeof(Pack)),
          static_cast<const Pack*>(call.in),
          static_cast<Pack*>(call.out)};
}

/// Calls launch with the type of sums, and with room for two ranks or for eight. Few kinds, for each is compiled for
/// every backend: what sums mostly, bf16, has one of its own for two.
template <template <class, int> class Launch, class... Arguments>
void for_values_and_ranks(DType dtype, int ranks, Arguments&&... arguments) {
  if (dtype == DType::f16) return Launch<F16Sum, most_own_ranks>::launch(arguments...);
  if (dtype == DType::f32) return Launch<protocol::F32Sum, most_own_ranks>::launch(arguments...);
  if (ranks <= 2) return Launch<protocol::Bf16Sum, 2>::launch(arguments...);
  return Launch<protocol::Bf16Sum, most_own_ranks>::launch(arguments...);
}

}  // namespace specstep::comm
