// What runs where: features of engines and libraries by generation of GPU, each row with its source and date.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "model/base/describe.h"

namespace specstep {

struct RunConfig;

enum class Feature {
  allreduce_fusion,   // an allreduce that goes on with residual and norm
  symmetric_memory,   // peers load and store each other's buffers by one address map
  custom_allreduce,   // an engine's own kernel in place of NCCL
  expert_all_to_all,  // tokens sent to the ranks that hold their experts
  multicast,          // a switch reduces and broadcasts
  full_graphs,        // passes of speculation captured whole
  toolchain
};

template <>
struct EnumNames<Feature> {
  static std::vector<std::string> names() {
    return {"allreduce_fusion", "symmetric_memory", "custom_allreduce", "expert_all_to_all",
            "multicast",        "full_graphs",      "toolchain"};
  }
};

struct Capability {
  Feature feature{};
  std::string carrier;       // what it is called
  std::string engine;        // sglang, vllm, tensorrt-llm; any
  std::vector<int> runs_on;  // compute capabilities times ten: 90 for sm_90
  std::vector<int> not_on;   // where its source says that it does not run; of others it does not say
  std::string needs;         // beside that: links, versions
  std::string since;         // version or date of what `runs_on` says; empty: not told
  std::string note;          // why not, and what it gives
  std::string source;
  std::string date;  // of the source; "read 2026-11" where it has none that we know
};

const std::vector<Capability>& capabilities();

/// What of a run its GPUs, links or engine do not have, or have only since some version: a note for each, with the
/// reason, the source, and what there is instead. specstep's own kernels are held back by no engine's gate, and the
/// notes say so.
std::vector<std::string> capability_notes(const RunConfig& config);

/// Why a backend cannot be on this run's GPUs whatever the fabric says, or nothing.
std::string capability_refusal(const RunConfig& config, const std::string& backend);

/// One line for each row and what it needs; for `specstep list --capabilities`.
std::string capabilities_text();
nlohmann::ordered_json capabilities_json();

}  // namespace specstep
