#include "comm/own_kernels.h"

namespace specstep::comm {

void describe(Fields& f, OwnKernels& k) {
  f.required("step_us", k.step_us, "loads, stores, looks and sums of one step, in kernels for two ranks");
  f.required("more_ranks_us", k.more_ranks_us, "added to a step by kernels for three to eight ranks");
  f.required("fence_us", k.fence_us, "a system fence ahead of a barrier's flag");
  f.required(
      "host_fence_us", k.host_fence_us,
      "a system fence behind stores to pinned host memory; blocks pay it one after another, the first pays none");
  f.required("line_gb_s", k.line_gb_s, "stores of a GPU to peers in pairs of data and epoch, 10^9 bytes per second");
  f.required("codec_us", k.codec_us, "256 values to fp8 or back, in a block of two warps");
  f.required("codec_warp_us", k.codec_warp_us, "added to that for each further warp of the block");
  f.required("copy_us", k.copy_us, "a copy-engine operation between kernels of a graph");
  f.required("norm_us", k.norm_us, "residual sum and norm of rows in the kernel that summed them");
}

void check(const OwnKernels& k, Checker& c) {
  const Range time{.min = 0, .max = 1000};
  check_range(c, "step_us", k.step_us, time);
  check_range(c, "more_ranks_us", k.more_ranks_us, time);
  check_range(c, "fence_us", k.fence_us, time);
  check_range(c, "host_fence_us", k.host_fence_us, time);
  check_range(c, "line_gb_s", k.line_gb_s, {.min = 0, .max = 1e5, .above_min = true});
  check_range(c, "codec_us", k.codec_us, time);
  check_range(c, "codec_warp_us", k.codec_warp_us, time);
  check_range(c, "copy_us", k.copy_us, time);
  check_range(c, "norm_us", k.norm_us, time);
}

}  // namespace specstep::comm
