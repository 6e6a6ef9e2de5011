// Time of one kernel from the numbers of a GPU.
//
//   t(F, B) = max( n floor,  F / (peak_flops c),  (B + ramp) / (peak_bandwidth e) )
//
// F flops, B bytes, n kernels, e and c the efficiencies of the kernel's class. (B + ramp) / (bandwidth e) is
// B / (bandwidth e(B)) with e(B) = e B / (B + ramp): full efficiency for large transfers, half at B = ramp.
// Worked number: RTX PRO 6000, 1792 GB/s, e = 0.83, ramp = 5.6 MB: an o_proj shard of 14.7 MB takes
// (14.7 + 5.6) MB / 1487 GB/s = 13.6 us.
#pragma once

#include "comm/pricing.h"
#include "model/cost.h"
#include "sim/engine/kernels.h"
#include "sim/machine.h"

namespace specstep {

struct KernelPrice {
  double seconds = 0;
  comm::Provenance provenance = comm::Provenance::datasheet;
};

/// Attention in blocks (see SplitAttention): the fixed part of the class, and the blocks or the bytes, whichever is
/// longer.
KernelPrice price_split_attention(const GpuSpec& gpu, const SplitAttention& split, const Attention& op);

/// Price of the kernels of one operation, without launch gaps. Collectives cost nothing here; one that
/// goes on with a norm costs what the norm does.
KernelPrice price_kernel(const GpuSpec& gpu, const Op& op);

}  // namespace specstep
