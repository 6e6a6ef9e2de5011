// What each backend can do on devices, what it needs, and what it promises of its sums.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace specstep::comm {

/// Static truth about a backend on devices; what only a machine can tell is a refusal when it is opened.
struct Caps {
  bool exchanges = true;  // false: null and delay, whose results are no sums
  bool in_place = true;
  bool graph = true;      // calls can be captured
  bool processes = true;  // ranks may be processes
  bool share_gpu = false;
  bool needs_p2p = false;
  bool needs_nvlink = false;
  bool needs_host_memory = false;
  bool lossless = true;
  bool fp32 = true;            // sums of partial sums are fp32
  bool fused_rmsnorm = false;  // the allreduce's kernel can go on with residual and norm
  int max_ranks = 8;
  std::int64_t alignment = 2;  // bytes that a message is a multiple of, beside whole values
  std::vector<std::string> dtypes{"f32", "f16", "bf16"};
  // Determinism.
  bool same_every_run = true;     // equal inputs give equal bits in every run
  bool same_on_all_ranks = true;  // ranks end with equal bits
  bool rank_order = true;         // equal to the fp32 sum in rank order, rounded once
  std::string limits;             // what else there is to say
};

/// InputError for an unknown id.
const Caps& caps_of(const std::string& id);

/// "run to run identical; rank to rank identical; equal to the fp32 sum in rank order, rounded once".
std::string determinism_text(const Caps& caps);

}  // namespace specstep::comm
