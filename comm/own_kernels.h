// What specstep's own kernels cost beyond what a fabric gives any kernel: constants of a fabric file.
#pragma once

#include "model/base/describe.h"
#include "model/base/quantity.h"

namespace specstep::comm {

/// Times of what threads of our kernels do between flags, measured on the GPUs of a fabric. How often each counts in
/// which protocol is in own_price.cpp.
struct OwnKernels {
  Quantity step_us;        // a thread's loads, stores, looks and sums of one step, in kernels for two ranks
  Quantity more_ranks_us;  // added to a step by the kernels for three to eight ranks, which walk eight places
  Quantity fence_us;       // what a block wrote becomes visible to all, ahead of the flag that says so
  Quantity host_fence_us;  // the same in host memory, for each block beyond the first: such fences come in turn
  Quantity line_gb_s;      // stores of a GPU to peers in pairs {data, epoch}, 32 bytes a thread; pairs included
  Quantity codec_us;       // 256 values to fp8 or back, in a block of two warps
  Quantity codec_warp_us;  // added to that for each further warp of the block
  Quantity copy_us;        // a copy-engine operation between kernels of a graph
  Quantity norm_us;        // residual sum and norm of rows behind their sums, in the same kernel
};

void describe(Fields& f, OwnKernels& k);
void check(const OwnKernels& k, Checker& c);

}  // namespace specstep::comm
