// The table. A row says only what its source says.
#include "sim/capabilities.h"

#include <nlohmann/json.hpp>

#include "model/base/formatted.h"

namespace specstep {

namespace {

const std::string unknown_date = "read 2026-11";
const std::string seed_reports = "reports on 8x RTX PRO 6000 that configs/runs/seed-study.yaml repeats";

std::vector<Capability> fusion_rows() {
  const auto feature = Feature::allreduce_fusion;
  return {
      {feature,
       "FlashInfer trtllm_allreduce_fusion",
       "sglang",
       {90, 100},
       {120},
       "peer access between all ranks",
       "",
       "chosen by a list of compute capabilities that held 9 and 10 only; on sm_120 it was switched on all the same "
       "and "
       "crashed while graphs were captured",
       "sgl-project/sglang#15650",
       unknown_date},
      {feature,
       "FlashInfer trtllm_allreduce_fusion for SM12x",
       "sglang",
       {120},
       {},
       "asked for by hand; peer access between all ranks",
       "flashinfer-ai/flashinfer#3903",
       "two ranks gain 2 to 5 % of decode, four ranks lose: pushes to all peers at once; the automatic choice was "
       "withdrawn (sgl-project/sglang#32330)",
       "flashinfer-ai/flashinfer#3903, sgl-project/sglang#32330",
       unknown_date},
      {feature,
       "FlashInfer pcie_ipc",
       "sglang",
       {120},
       {},
       "PCIe peer access between all ranks",
       "2026-08",
       "made for PCIe, in islands: TPOT 9.53 to 8.18 ms at one stream of 8k tokens; allreduce -36 % on 8 ranks, -10 % "
       "on "
       "4",
       "flashinfer-ai/flashinfer#4393, sgl-project/sglang#34528",
       "2026-08-07"},
      {feature,
       "one-shot and two-shot with norm",
       "tensorrt-llm",
       {90, 100},
       {120},
       "NVLink between all ranks; NCCL takes over without",
       "",
       "sm_120 has no NVLink, so AUTO goes to NCCL",
       "NVIDIA/TensorRT-LLM allReduce strategy AUTO, pull 4344",
       "2025"},
      {feature,
       "specstep's own backends (comm.fusion)",
       "any",
       {80, 90, 100, 120},
       {},
       "a backend that fuses (specstep list --backends)",
       "0.1.0",
       "kernels of specstep: no engine's list of GPUs holds them back, and no engine runs them",
       "docs/cuda.md",
       "2026-11"},
  };
}

std::vector<Capability> memory_rows() {
  return {
      {Feature::symmetric_memory,
       "torch symmetric memory",
       "vllm",
       {90, 100},
       {120},
       "an entry of the table of sizes by compute capability",
       "",
       "the table has none for 12.0; PCIe pairs report peer access but no native atomics, which its signals use",
       "vllm-project/vllm#47979",
       unknown_date},
      {Feature::symmetric_memory,
       "torch symmetric memory",
       "sglang",
       {90, 100},
       {120},
       "an entry of the table of sizes, or multicast",
       "",
       "no entry for 12.0, and no multicast without NVLink",
       "sgl-project/sglang#30364",
       unknown_date},
      {Feature::symmetric_memory,
       "NCCL symmetric windows (nccl_sym)",
       "any",
       {90, 100, 120},
       {},
       "NCCL 2.27; cuMem allocations; NVML peer access between all pairs",
       "NCCL 2.27",
       "taken without comparison wherever it can be; no public figure on PCIe with sm_120",
       "NVIDIA/nccl@v2.28.9-1",
       "2025"},
      {Feature::multicast,
       "NVLink SHARP (nvls, multimem)",
       "any",
       {90, 100},
       {120},
       "an NVSwitch that reduces; `multicast: true` in the fabric file",
       "",
       "sm_120 has no NVLink, hence no switch that reduces",
       "NVIDIA/nccl@v2.28.9-1 src/graph/tuning.cc: efficiencies for Hopper and data-centre Blackwell only",
       "2025"},
  };
}

std::vector<Capability> allreduce_rows() {
  const auto feature = Feature::custom_allreduce;
  return {
      {feature,
       "custom_all_reduce",
       "vllm",
       {90, 100},
       {},
       "2, 4, 6 or 8 GPUs; NVLink between all pairs when more than two; below 8 MiB",
       "",
       "on PCIe only two GPUs take it: the kernel's dispatch has no branch for more without NVLink",
       "vllm-project/vllm@00d618a vllm/distributed/device_communicators/custom_all_reduce.py",
       "2026"},
      {feature,
       "custom_all_reduce_v2",
       "sglang",
       {90, 100},
       {120},
       "NVLink between all pairs; 16-byte packs; up to 16 MiB",
       "",
       "PCIe goes to NCCL",
       "sgl-project/sglang#19880 and later",
       "2026"},
      {feature,
       "custom_all_reduce, one-stage forced",
       "sglang",
       {90, 100, 120},
       {},
       "SGLANG_CUSTOM_ALLREDUCE_ALGO=1stage; peer access between all ranks",
       "",
       "skips the branch that asks for NVLink (comm.engine sglang-1stage)",
       "sgl-project/sglang sgl-kernel/csrc/allreduce/custom_all_reduce.cuh",
       "2026"},
      {feature,
       "one-stage and island kernels for PCIe",
       "any",
       {80, 90, 100, 120},
       {},
       "peer access between all ranks",
       "0.1.0",
       "push1, pull1, rsag, island of specstep run wherever peers reach each other, whatever an engine allows",
       "docs/comm.md",
       "2026-11"},
  };
}

std::vector<Capability> expert_rows() {
  return {
      {Feature::expert_all_to_all,
       "DeepEP",
       "sglang",
       {90},
       {120},
       "NVLink within a node, RDMA between nodes",
       "",
       "runs on 32 Hopper GPUs, 20 GB a rank with graphs; on 8x RTX PRO 6000 an expert-parallel all-to-all crashed, "
       "which "
       "one is not told (" +
           seed_reports + ")",
       "sgl-project/sglang#24453",
       unknown_date},
  };
}

std::vector<Capability> graph_rows() {
  const auto feature = Feature::full_graphs;
  return {
      {feature,
       "verify with FlashInfer attention",
       "vllm",
       {},
       {120},
       "an attention backend for uniform batches of K + 1 queries",
       "",
       "the verify pass had no FULL graph on sm_120 and ran PIECEWISE",
       "vllm-project/vllm#47979",
       unknown_date},
      {feature,
       "verify with Triton MLA",
       "vllm",
       {120},
       {},
       "graphs of 49 sizes, about 4 GB",
       "2026-04",
       "FULL in place of PIECEWISE: an iteration of 19 to 21 ms where it took 85 to 90 at 30k tokens; 116.6 for 75.0 "
       "tok/s at 2k; "
       "less at 64 streams and more",
       "local-inference-lab/rtx6kpro models/kimi-k26-mtp-long-ctx-wip",
       "2026-04-24"},
      {feature,
       "verify (TARGET_VERIFY)",
       "sglang",
       {90, 100, 120},
       {},
       "",
       "",
       "with a draft the server captures verify in place of plain decode",
       "sgl-project/sglang cuda_graph_runner.py, eagle_worker_v2.py",
       "2026"},
      {feature,
       "extend of the draft",
       "sglang",
       {90, 100, 120},
       {},
       "Triton or TRT-LLM MLA as the draft's attention backend",
       "",
       "others run it eagerly in every cycle (early 2026); captured more widely later",
       "sgl-project/sglang eagle_draft_extend_cuda_graph_runner.py",
       "2026"},
      {feature,
       "verify and drafts in one graph",
       "tensorrt-llm",
       {100},
       {},
       "",
       "",
       "DeepSeek-R1 on B200 at batch 1: 7.2 times as fast with graphs",
       "NVIDIA/TensorRT-LLM tech blog 1",
       "2025"},
  };
}

std::vector<Capability> toolchain_rows() {
  return {{Feature::toolchain,
           "code for sm_100 and sm_120",
           "any",
           {100, 120},
           {},
           "CUDA 12.8",
           "CUDA 12.8",
           "older toolkits have no Blackwell",
           "NVIDIA CUDA 12.8 release notes",
           "2025-01"},
          {Feature::toolchain,
           "CUDA 13 in place of 12.8",
           "any",
           {90, 100, 120},
           {},
           "",
           "CUDA 13.0",
           "no measurement of the toolkit alone is known; what came with it are new kernels",
           seed_reports + ", which plan it",
           "2026"}};
}

std::string chips(const std::vector<int>& list) {
  std::string out;
  for (const int sm : list) out += formatted("{}{}", out.empty() ? "" : " ", sm);
  return out.empty() ? "-" : out;
}

}  // namespace

const std::vector<Capability>& capabilities() {
  static const std::vector<Capability> rows = [] {
    std::vector<Capability> all;
    for (const auto& part :
         {fusion_rows(), memory_rows(), allreduce_rows(), expert_rows(), graph_rows(), toolchain_rows()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return rows;
}

std::string capabilities_text() {
  std::string out = formatted("{:<50}{:<14}{:<15}{:<8}{}\n", "what", "engine", "runs on sm", "not on", "since");
  std::string last;
  for (const Capability& c : capabilities()) {
    const std::string feature = name_of(c.feature);
    if (feature != last) out += feature + "\n";
    last = feature;
    out += formatted("  {:<48}{:<14}{:<15}{:<8}{}\n", c.carrier, c.engine, chips(c.runs_on), chips(c.not_on),
                     c.since.empty() ? "-" : c.since);
    if (!c.needs.empty()) out += "      needs " + c.needs + "\n";
    out += formatted("      {}\n      [{}; {}]\n", c.note, c.source, c.date);
  }
  return out + "a GPU in neither column, or no date: the source does not say\n";
}

nlohmann::ordered_json capabilities_json() {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const Capability& c : capabilities())
    out.push_back({{"feature", name_of(c.feature)},
                   {"carrier", c.carrier},
                   {"engine", c.engine},
                   {"runs_on", c.runs_on},
                   {"not_on", c.not_on},
                   {"needs", c.needs},
                   {"since", c.since},
                   {"note", c.note},
                   {"source", c.source},
                   {"date", c.date}});
  return out;
}

}  // namespace specstep
