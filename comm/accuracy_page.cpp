// Words around the accuracy tables, so that one command prints the whole page.
#include "comm/accuracy_page.h"

#include "comm/accuracy.h"

namespace specstep::comm {

std::string accuracy_page(const std::string& tables, const std::string& configs) {
  static constexpr const char* words = R"(# How well allreduce prices agree with measurements

Printed by `comm_accuracy traces/comm configs`, a program of the test build; a test fails when this page
is out of date. Errors are predicted / measured - 1. Whole passes on H200 are in [performance.md](performance.md): of ten
decode and verify passes (2026-11-30, nothing fitted to them) half are within 4.1 %, the worst is off by +7.4 %.

What was fitted, and to what (each such number says so in its fabric file):

- arrival of ranks and NVLink latency: two rows of 512 B on 2 H100, and for RTX PRO 6000 two rows of 512 B on 2 GPUs. All
  rows of 4, 8 and 16 GPUs, all larger sizes and all H200 rows are predictions.
- time between stages of a kernel: one row, 512 KiB two-stage on 8 H100.
- bandwidth of the collapse on the ASUS host: the median over its one-stage figures from 8 KiB up. Its scored rows are
  therefore not independent; the other hosts do not use it.
- NCCL: the constants are NCCL's own. Hops through shared host memory use two constants fitted on 2 H200 with peer access off; "NCCL,
  dual Turin, as it comes" is a prediction with them. On the two H200 of the project's own measurements three bases were fitted to four
  rows of NCCL 2.28.3 (9.72 us of 458,752 B; symmetric windows 2,048, 43,008 and 458,752 B); they change what its choice costs there, not
  the choice. The other rows of 2.28.3 up to 1 MiB and all of 2.28.9, measured later, are held out: each is within 20 %. The base of the
  ring would suit another H200 host with two GPUs as well ("NCCL, H200 NVSwitch"), but not its rows of four and eight.
- specstep's own kernels on H200: nine constants, each to one row ("Own kernels, fitted to"): four of 14,336 B, two of
  458,752 B and one of 229,376 B on two GPUs, one of four GPUs, one with a norm. All rows of rsag, ring, island and nccl_dev, all but
  one of four GPUs and all other sizes are held out: up to 1 MiB each of these is within 20 %. What counts how often (comm/own_price.cpp)
  was derived from the kernels, but by people who knew the measurements.

What is left unexplained:

- NCCL on the aiconfigurator server with 8 GPUs is 20 % slower than NCCL's own model from the smallest size on, and
  with 2 GPUs 23 % faster: its constants for a PCIe step are too low and its base is too high.
- The steps of the measured NCCL curves at 256 and 512 KiB on PCIe (protocol changes) come at other sizes than in the model.
- Eager rows measure how fast a host launches: p2pmark drives all GPUs from one thread. The model has one launch interval.
- NCCL on the collapse host was only timed eagerly.
- One-shot with forced P2P on four directly attached GPUs (16 us) is faster than the several-peer rate that another such host
  was measured at allows (20.6 GB/s per GPU, used in dual_root_direct).
- Own kernels: times still grow where bytes hardly count, from 2 to 14 KB (pull1 by 0.9 us, priced 0.05). `ring` on two GPUs
  and `island` move large messages slower than their links and packets allow (-19 % below 1 MiB, -38 % above); reads of rsag
  take a step at 28 KB that is not priced (-14 %). Ranks that share a GPU, cold caches and calls in several pieces are not priced; fewer
  blocks (`comm.own.blocks`) change loads in flight, rounds of nccl_dev and warps of q8 alone, which was not measured.
- NCCL through shared host memory: its choice of Simple over LL comes where the model still has LL slower, so that a price falls by up
  to 13 % as the message grows.
- NCCL on two H200: its steps between 14 and 28 KB on symmetric windows (4.4 to 6.0 us), and 26 us of 1.8 MB where the model has 19.

)";
  const ConfigLibrary library(configs);
  std::vector<AccuracyRow> rows = predict_table(tables + "/allreduce_field.csv", library);
  for (AccuracyRow& row : predict_table(tables + "/allreduce_own.csv", library)) rows.push_back(std::move(row));
  return words + accuracy_report(rows);
}

}  // namespace specstep::comm
