// Copies that the memory system makes by itself, and barriers in shared memory that wait for them. From compute
// capability 9.0 on; before, nothing that calls these is launched.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <nv/target>
#include <type_traits>

namespace specstep::cuda {

/// Compute capability, its first number, from which on bulk copies work.
inline constexpr int bulk_capability = 9;

__device__ inline std::uint32_t shared_address(const void* at) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(at));
}

/// Shared memory by its address, which generic pointers to it would be made of again and again.
__device__ inline uint4 read_16(std::uint32_t shared) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(shared));
  return v;
}
__device__ inline void write_8(std::uint32_t shared, uint2 v) {
  asm volatile("st.shared.v2.u32 [%0], {%1, %2};" ::"r"(shared), "r"(v.x), "r"(v.y) : "memory");
}
/// Two or four bytes, or two floats.
template <class Value>
__device__ inline Value read_value(std::uint32_t shared) {
  static_assert(sizeof(Value) == 2 || sizeof(Value) == 4 || std::is_same_v<Value, float2>);
  if constexpr (sizeof(Value) == 8) {
    float2 v;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(shared));
    return v;
  } else if constexpr (sizeof(Value) == 2) {
    std::uint16_t v;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(shared));
    return v;
  } else {
    std::uint32_t v;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(shared));
    return v;
  }
}

/// In one thread of a warp that calls it whole.
__device__ inline bool elected() {
  NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90,
                    (std::uint32_t own; asm volatile("{.reg .pred p; elect.sync _|p, 0xFFFFFFFF; selp.b32 %0, 1, 0, p;}"
                                                     : "=r"(own));
                     return own != 0;),
                    (return threadIdx.x % 32 == 0;))
}

__device__ inline void init_barrier(std::uint32_t barrier, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Behind this and a barrier of the block, copies may use barriers that this thread initialised.
__device__ inline void publish_barriers() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");))
}

__device__ inline void arrive(std::uint32_t barrier) {
  asm volatile("{.reg .b64 t; mbarrier.arrive.shared.b64 t, [%0];}" ::"r"(barrier) : "memory");
}
/// Arrives, and lets the barrier wait for so many copied bytes too.
__device__ inline void expect_bytes(std::uint32_t barrier, int bytes) {
  NV_IF_TARGET(NV_PROVIDES_SM_90,
               (asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                             : "memory");))
}
/// Whether the phase of this parity is complete; sleeps a while for it where the device can.
__device__ inline bool passed(std::uint32_t barrier, int parity) {
  std::uint32_t done = 0;
  NV_IF_ELSE_TARGET(
      NV_PROVIDES_SM_90,
      (asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}"
                    : "=r"(done)
                    : "r"(barrier), "r"(parity)
                    : "memory");),
      (asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}"
                    : "=r"(done)
                    : "r"(barrier), "r"(parity)
                    : "memory");))
  return done != 0;
}
__device__ inline void await_barrier(std::uint32_t barrier, int parity) {
  while (!passed(barrier, parity)) {
  }
}

/// What this thread and those before it at a barrier wrote and read in shared memory comes before copies behind this.
__device__ inline void order_copies() {
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("fence.proxy.async.shared::cta;" ::: "memory");))
}
/// Multiples of 16 bytes, from and to multiples of 16.
__device__ inline void copy_bulk(std::uint32_t to, const void* from, int bytes, std::uint32_t barrier) {
  NV_IF_TARGET(
      NV_PROVIDES_SM_90,
      (asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                    "l"(from), "r"(bytes), "r"(barrier)
                    : "memory");))
}
/// What is mostly read once is the first to leave the second-level cache.
__device__ inline std::uint64_t once_policy() {
  std::uint64_t policy = 0;
  NV_IF_TARGET(NV_PROVIDES_SM_90, (asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;"
                                                : "=l"(policy));))
  return policy;
}
/// Where a copy is told of, and what the cache does with what was copied.
struct Landing {
  std::uint32_t barrier;
  std::uint64_t policy;
};
/// As copy_bulk.
__device__ inline void copy_once(std::uint32_t to, const void* from, int bytes, Landing landing) {
  NV_IF_TARGET(NV_PROVIDES_SM_90,
               (asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
                             "[%1], %2, [%3], %4;" ::"r"(to),
                             "l"(from), "r"(bytes), "r"(landing.barrier), "l"(landing.policy)
                             : "memory");))
}

}  // namespace specstep::cuda
