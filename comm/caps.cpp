#include "comm/caps.h"

#include <map>

#include "comm/backend.h"

namespace specstep::comm {

namespace {

/// NCCL's ring and tree round to the type of the values at every hop, in an order that the algorithm and the channels
/// give; which those are is NCCL's choice.
Caps nccl() {
  Caps c;
  c.fp32 = false;
  c.rank_order = false;
  c.max_ranks = 1024;
  c.limits = "rounds at every hop; runs are alike while NCCL takes the same algorithm and channels";
  return c;
}

Caps nccl_sym() {
  Caps c;
  c.needs_p2p = true;
  c.rank_order = false;
  c.limits = "NCCL 2.27 or newer; all ranks reach each other's memory; the order of a sum is NCCL's";
  return c;
}

Caps nccl_dev() {
  Caps c;
  c.needs_p2p = true;
  c.limits = "NCCL 2.28 or newer, headers and library of one version; all ranks reach each other's memory";
  return c;
}

Caps own(bool fused) {
  Caps c;
  c.share_gpu = true;
  c.needs_p2p = true;
  c.fused_rmsnorm = fused;
  return c;
}

Caps island() {
  Caps c = own(true);
  c.rank_order = false;
  c.limits = "islands of one size; fp32 sums inside an island, then of the islands in their order, rounded once";
  return c;
}

Caps ring() {
  Caps c = own(false);
  c.rank_order = false;
  c.limits = "a shard is summed round the ring, from the rank after its owner, and rounded once";
  return c;
}

Caps hostbc() {
  Caps c = own(false);
  c.needs_p2p = false;
  c.needs_host_memory = true;
  c.limits = "ranks of one host";
  return c;
}

Caps ce() {
  Caps c = own(false);
  c.limits = "each copy costs microseconds: for messages of megabytes";
  return c;
}

Caps q8() {
  Caps c = own(false);
  c.lossless = false;
  c.rank_order = false;
  c.limits = "fp8 on the wire: off by at most 0.122 of the sum of the magnitudes";
  return c;
}

Caps nvls() {
  Caps c = own(false);
  c.share_gpu = false;
  c.processes = false;
  c.needs_nvlink = true;
  c.same_every_run = false;
  c.rank_order = false;
  c.limits = "a switch with multicast, and comm.own.nvls: true; the order of a sum is the switch's";
  return c;
}

Caps idle(const char* limits) {
  Caps c;
  c.exchanges = false;
  c.share_gpu = true;
  c.lossless = c.fp32 = c.same_every_run = c.same_on_all_ranks = c.rank_order = false;
  c.max_ranks = 1 << 20;
  c.limits = limits;
  return c;
}

}  // namespace

const Caps& caps_of(const std::string& id) {
  static const std::map<std::string, Caps> rows{
      {"nccl", nccl()},
      {"nccl_sym", nccl_sym()},
      {"nccl_dev", nccl_dev()},
      {"push1", own(true)},
      {"pull1", own(true)},
      {"rsag", own(true)},
      {"island", island()},
      {"hostbc", hostbc()},
      {"ring", ring()},
      {"ce", ce()},
      {"q8", q8()},
      {"nvls", nvls()},
      {"null", idle("moves nothing")},
      {"delay", idle("waits for the time that the cost model gives")},
  };
  return rows.at(backend(id).id);
}

std::string determinism_text(const Caps& c) {
  if (!c.exchanges) return "no sums";
  std::string text = c.same_every_run ? "run to run identical" : "runs may differ in the last bit";
  text += c.same_on_all_ranks ? "; rank to rank identical" : "; ranks may differ in the last bit";
  return text + (c.rank_order ? "; equal to the fp32 sum in rank order, rounded once" : "");
}

}  // namespace specstep::comm
