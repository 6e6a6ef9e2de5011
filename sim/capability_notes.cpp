// The table of capabilities held against a run.
#include <algorithm>
#include <cmath>

#include "comm/topology.h"
#include "model/base/formatted.h"
#include "sim/capabilities.h"
#include "sim/config.h"

namespace specstep {

namespace {

/// 120 for sm_120: what the GPU file says, else what NCCL is told of the fabric.
int generation_of(const MachineSpec& machine) {
  if (machine.gpu.compute_capability) return static_cast<int>(std::lround(10 * machine.gpu.compute_capability->value));
  return machine.fabric.nccl.compute_capability;
}

bool holds(const std::vector<int>& list, int sm) { return std::find(list.begin(), list.end(), sm) != list.end(); }

/// The serving engine as the table calls it.
std::string engine_of(const RunConfig& config) {
  const EnginePreset preset = config.engine.preset;
  return preset == EnginePreset::trtllm ? "tensorrt-llm" : name_of(preset);
}

const Capability* find_row(Feature feature, const std::string& engine, int sm, bool runs) {
  for (const Capability& c : capabilities())
    if (c.feature == feature && c.engine == engine && holds(runs ? c.runs_on : c.not_on, sm)) return &c;
  return nullptr;
}

/// What an engine came to have later on these GPUs, each with its date.
std::string later_text(Feature feature, const std::string& engine, int sm) {
  std::string out;
  for (const Capability& c : capabilities())
    if (c.feature == feature && c.engine == engine && holds(c.runs_on, sm) && !c.since.empty())
      out += formatted("{}{} (since {})", out.empty() ? "; there is now " : ", ", c.carrier, c.since);
  return out;
}

void note_fusion(const RunConfig& config, int sm, std::vector<std::string>& out) {
  if (config.comm.fusion == CommFusion::none) return;
  const std::string engine = engine_of(config);
  const Capability* gated = find_row(Feature::allreduce_fusion, engine, sm, false);
  if (!gated) return;
  out.push_back(formatted(
      "comm.fusion on sm_{}: {}'s own ({}) does not run there: {} [{}]{}; the price is that of specstep's kernels, "
      "which "
      "no engine's gate holds back",
      sm, engine, gated->carrier, gated->note, gated->source, later_text(Feature::allreduce_fusion, engine, sm)));
}

/// Whole experts on ranks that hold whole sequences: tokens travel.
void note_exchange(const RunConfig& config, int sm, std::vector<std::string>& out) {
  if (config.parallel.attention_data < 2 || config.parallel.expert != config.parallel.tensor) return;
  const Capability* gated = find_row(Feature::expert_all_to_all, engine_of(config), sm, false);
  if (!gated) return;
  out.push_back(
      formatted("experts on sm_{}: {} does not run there: {} [{}]; the all-to-all is priced as sends and receives", sm,
                gated->carrier, gated->note, gated->source));
}

bool asks_for(const CommSpec& comm, const std::string& backend) {
  if (comm.rows().empty()) return comm.pick(1) == backend;
  return std::any_of(comm.rows().begin(), comm.rows().end(), [&](const CommRule& r) { return r.backend == backend; });
}

/// The engine's rules send PCIe with more than two GPUs to NCCL: said, because it is often asked for.
void note_custom_allreduce(const RunConfig& config, std::vector<std::string>& out) {
  const auto ranks = static_cast<int>(config.parallel.attention_tensor());
  if (!asks_for(config.comm, "engine-default") || ranks < 3) return;
  if (comm::build_topology(config.machine.fabric).full_nvlink(ranks)) return;
  const std::string& engine = config.comm.engine;
  for (const Capability& c : capabilities()) {
    if (c.feature != Feature::custom_allreduce || c.engine != engine) continue;
    out.push_back(formatted(
        "engine-default: {}'s custom allreduce ({}) needs {} and is not used on {} GPUs over PCIe [{}]; backends of "
        "specstep can be asked for by name (comm.backend: pull1, island, ...)",
        engine, c.carrier, c.needs, ranks, c.source));
    return;
  }
}

}  // namespace

std::vector<std::string> capability_notes(const RunConfig& config) {
  std::vector<std::string> out;
  if (config.parallel.tensor < 2) return out;
  note_fusion(config, generation_of(config.machine), out);
  note_exchange(config, generation_of(config.machine), out);
  note_custom_allreduce(config, out);
  return out;
}

std::string capability_refusal(const RunConfig& config, const std::string& backend) {
  if (backend != "nvls") return "";
  const int sm = generation_of(config.machine);
  const Capability* row = find_row(Feature::multicast, "any", sm, false);
  return row ? formatted("nvls does not exist on sm_{}: {} [{}, {}]", sm, row->note, row->source, row->date) : "";
}

}  // namespace specstep
