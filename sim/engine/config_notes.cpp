#include "sim/engine/config_notes.h"

#include <algorithm>

#include "comm/caps.h"
#include "comm/topology.h"
#include "model/base/formatted.h"
#include "sim/capabilities.h"

namespace specstep {

namespace {

/// Which allreduces keep their norm apart although fusion was asked for.
std::vector<std::string> fusion_notes(const RunConfig& config) {
  std::vector<std::string> out;
  const CommSpec& comm = config.comm;
  if (comm.fusion == CommFusion::none) return out;
  if (config.parallel.attention_tensor() == 1 && config.parallel.tensor == 1)
    return {"comm.fusion has nothing to fuse: one rank sums nothing"};
  const std::vector<CommRule>& table = comm.rows();
  for (std::size_t i = 0; i < table.size(); ++i)
    if (!is_comm_choice(table[i].backend) && !comm::caps_of(table[i].backend).fused_rmsnorm)
      out.push_back(formatted("comm.fusion: {} (comm.table[{}]) cannot fuse; its allreduces keep their norms apart",
                              table[i].backend, i));
  if (table.empty() && is_comm_choice(comm.pick(1)))
    out.push_back(
        formatted("comm.fusion: where {} chooses a backend that cannot fuse, norms stay apart", comm.pick(1)));
  return out;
}

/// Settings of our own backends that this run does not read.
std::vector<std::string> own_notes(const RunConfig& config) {
  if (!config.comm.own) return {};
  std::vector<std::string> out;
  const bool priced = config.measure.executor == ExecutorKind::cost;
  if (priced && !config.machine.fabric.gpu.own_kernels)
    out.emplace_back(
        "comm.own: without gpu.own_kernels in the fabric the kernels of serving engines are priced, and of comm.own "
        "only "
        "islands are read; the cuda executor runs with all");
  if (config.comm.own->islands.empty()) return out;
  std::vector<std::string> asked;
  for (const CommRule& rule : config.comm.rows()) asked.push_back(rule.backend);
  if (asked.empty()) asked.push_back(config.comm.pick(1));
  const auto may = [](const std::string& id) { return id == "island" || is_comm_choice(id); };
  if (std::none_of(asked.begin(), asked.end(), may))
    out.emplace_back("comm.own.islands is not read: no message goes by island");
  return out;
}

/// What the engine adds to the passes, or does not.
std::vector<std::string> engine_time_notes(const RunConfig& config) {
  std::vector<std::string> out;
  const EngineSpec& e = config.engine;
  if (config.measure.executor != ExecutorKind::cost) {
    if (e.skew) out.emplace_back("engine.skew is not added: measured ranks wait for real");
    if (e.host().given()) out.emplace_back("engine.cycle.host is not added: measured passes hold no work of an engine");
    return out;
  }
  if (e.skew && e.skew->of == SkewOf::wait && e.skew->ranks > 0 && e.skew->ranks != config.parallel.tensor)
    out.push_back(formatted("skew: waits were observed among {} ranks and are used as they are for {}", e.skew->ranks,
                            config.parallel.tensor));
  if (config.speculative() && config.parallel.tensor > 1 && !e.skew && !e.host().given())
    out.emplace_back(
        "ranks arrive together and the host's work is hidden: engine.skew and engine.cycle.host give no times");
  return out;
}

/// Settings of graphs that a server without graphs does not read.
std::vector<std::string> graph_notes(const RunConfig& config) {
  std::vector<std::string> out;
  const EngineSpec& e = config.engine;
  if (graph_mode(e.graph, e.preset) != GraphMode::none) return out;
  if (e.graph.sizes) out.emplace_back("engine.graph.sizes are not used: engine.graph.mode none captures nothing");
  if (e.graph.max_tokens)
    out.emplace_back("engine.graph.max_tokens is not used: engine.graph.mode none captures nothing");
  if (e.graph.max_batch)
    out.emplace_back(
        "engine.graph.mode none captures nothing; engine.graph.max_batch still counts in the rule that shares memory "
        "out");
  return out;
}

/// What the machine's links are not to its GPUs, and what its ranks do not share evenly.
std::vector<std::string> machine_notes(const RunConfig& config) {
  std::vector<std::string> out;
  const MachineSpec& m = config.machine;
  const ParallelLayout& p = config.parallel;
  const double sm = m.gpu.compute_capability ? m.gpu.compute_capability->value : 0;
  const bool without = sm == 8.9 || sm == 12.0;  // Ada and Blackwell of workstations: NVIDIA data sheets name none
  if (without && p.tensor > 1 && comm::build_topology(m.fabric).full_nvlink(static_cast<int>(p.tensor)))
    out.push_back(
        formatted("machine.fabric joins the GPUs by NVLink, which {} (sm_{:.0f}) has not: priced as if it had",
                  m.gpu.name, 10 * sm));
  if (p.expert > 1)
    out.push_back(
        formatted("parallel.expert {}: experts fall on ranks at random, and the rank that meets the most is priced; no "
                  "balancing of experts is",
                  p.expert));
  if (p.context > 1)
    out.emplace_back("the reduce-scatter of attention over the context group counts as allgather in the breakdown");
  return out;
}

/// Of a tree whose acceptance does not tell its width apart.
std::vector<std::string> tree_notes(const SpeculationSpec& s) {
  if (!s.tree || s.tree->topk < 2 || !s.acceptance || !s.acceptance->ranks.empty()) return {};
  return {
      formatted("acceptance is told by depth: another width of the tree than {} guesses a step would cost or save time "
                "and accept as much; speculation.acceptance.ranks tells the chance of each guess. The acceptance "
                "rate is accepted drafts by depth, {} here, not by nodes",
                s.tree->topk, s.tree->steps)};
}

}  // namespace

std::vector<std::string> config_notes(const RunConfig& config) {
  std::vector<std::string> out = fusion_notes(config);
  for (std::string& note : graph_notes(config)) out.push_back(std::move(note));
  for (std::string& note : machine_notes(config)) out.push_back(std::move(note));
  for (std::string& note : own_notes(config)) out.push_back(std::move(note));
  for (std::string& note : capability_notes(config)) out.push_back(std::move(note));
  if (const auto& w = config.comm.what_if; w && !w->allreduce_us && !w->cycle_allreduce_us && w->allreduce_factor == 1)
    out.emplace_back("comm.what_if says nothing: allreduces are priced as their backend would take");
  else if (config.comm.what_if)
    out.emplace_back("comm.what_if: allreduces are priced as it says, not as their backend would");
  const SpeculationSpec& s = config.speculation;
  const HostSpec& host = config.measure.host;
  if (config.draft && !config.drafts_with_model())
    out.push_back(formatted("draft {} is not used: speculation.method {} {}", config.draft->name, name_of(s.method),
                            config.speculative() ? "proposes from the text itself" : "drafts nothing"));
  if (config.speculative() && s.tree && s.draft_length != SpeculationSpec{}.draft_length)
    out.push_back(
        formatted("speculation.draft_length {} is not used: the tree drafts {} steps", s.draft_length, s.tree->steps));
  if (config.speculative() && s.acceptance && !config.measure.counts_acceptance())
    for (const std::string& note : acceptance_notes(*s.acceptance, s.depth(), s.method == DraftMethod::ngram))
      out.push_back(note);
  if (config.speculative() && !config.measure.counts_acceptance())
    for (std::string& note : tree_notes(s)) out.push_back(std::move(note));
  for (const std::string& note : engine_time_notes(config)) out.push_back(note);
  if (!config.measure.counts_acceptance() || !config.drafts_with_model() || host.draft_agreement == 0) return out;
  out.push_back(formatted(
      "the draft's logits hold {} of the target's (measure.host.draft_agreement); computing these is not timed",
      host.draft_agreement));
  if (host.temperature > 0 && host.accept == AcceptRule::target_only)
    out.emplace_back(
        "target_only keeps a draft with the target's own chance of it: at this temperature a draft that agrees is "
        "kept no more often than the target would draw its token");
  return out;
}

}  // namespace specstep
