#include "sim/cuda/memory.h"

#include <algorithm>
#include <cmath>

#include "model/base/formatted.h"
#include "model/base/units.h"
#include "model/build_plan.h"
#include "sim/cuda/pass.h"
#include "sim/engine/largest.h"
#include "sim/engine/launch.h"
#include "sim/plan_options.h"

namespace specstep::cuda {

namespace {

/// Graph, context growth and lazily loaded kernels. With these two, what was predicted for passes of 1,000 to 1,650
/// nodes was 0.2 to 0.6 % below what H200s reported (docs/performance.md).
constexpr double loaded_kernels = 128.0 * mib;
/// Channels and buffers of NCCL between the GPUs of a node.
constexpr double nccl_buffers = 512.0 * mib;

Real real_of(const RunConfig& config) {
  return config.measure.cuda.precision == HostPrecision::f32 ? Real::f32 : Real::bf16;
}

host::ModelView target_view(const RunConfig& config) {
  return host::view_of(config.stack, config.drafts_with_model() ? &*config.draft : nullptr);
}

std::int64_t padded(const RunConfig& config, PassKind kind) {
  if (config.measure.cuda.generate) return config.workload.batch;
  return choose_launch(config, kind, config.workload.batch).padded_batch;
}

}  // namespace

std::vector<Plan> plans_of(const RunConfig& config) {
  const WorkloadSpec& work = config.workload;
  const PlanOptions options = plan_options(config);
  const std::int64_t last = work.prompt_tokens + work.output_tokens;
  std::vector<Plan> out;
  const auto target = [&](PassKind kind, std::int64_t tokens, std::int64_t context) {
    out.push_back(build_plan(config.stack, config.parallel, {kind, padded(config, kind), tokens, context}, options));
  };
  const auto draft = [&](PassKind kind, std::int64_t tokens, std::int64_t context) {
    out.push_back(
        build_draft_plan(*config.draft, config.parallel, {kind, padded(config, kind), tokens, context}, options));
  };
  target(PassKind::prefill, work.prompt_tokens, 0);
  target(PassKind::decode, 1, last);
  if (config.speculative()) target(PassKind::verify, config.speculation.verify_tokens(), last);
  if (!config.drafts_with_model()) return out;
  draft(PassKind::prefill, work.prompt_tokens, 0);
  draft(PassKind::draft, config.speculation.draft_width(), last);
  draft(PassKind::extend, config.speculation.verify_tokens(), last);
  return out;
}

Holding holding_of(const RunConfig& config) {
  const WorkloadSpec& work = config.workload;
  const SpeculationSpec& spec = config.speculation;
  std::int64_t batch = work.batch;
  for (std::size_t kind = 0; kind < EnumNames<PassKind>::names().size(); ++kind)
    batch = std::max(batch, padded(config, static_cast<PassKind>(kind)));
  // The root, the drafts of all steps, and one node that only a verify pass has.
  const std::int64_t drafts =
      config.speculative() ? std::max(spec.verify_tokens(), spec.depth() * spec.draft_width() + 2) : 1;
  Holding out;
  out.seed = static_cast<std::uint64_t>(config.measure.host.seed);
  out.real = real_of(config);
  out.layout = config.parallel;
  out.batch = work.batch;
  out.tree_nodes = config.speculative() && spec.tree ? drafts : 0;
  out.room.sequences = (batch + config.parallel.attention_data - 1) / config.parallel.attention_data;
  out.room.nodes = drafts;
  out.room.keeps = config.measure.cuda.generate;
  // A text may run past its end by a cycle, and what warms a pass up writes behind that.
  out.room.tokens = work.prompt_tokens + work.output_tokens + 3 * drafts +
                    (out.room.keeps ? std::max(work.prompt_tokens, drafts) : 0);
  return out;
}

MemoryNeed memory_need(const RunConfig& config, const WeightSharing& sharing) {
  const Holding holding = holding_of(config);
  const std::vector<Plan> plans = plans_of(config);
  const host::ModelView target = target_view(config);
  MemoryNeed need;
  // The first plan of a model has all its weights but those that only catch up with a target.
  const auto add = [&](const Plan& plan) {
    need.weights += static_cast<double>(sharing.bytes(plan, holding.real));
    need.caches += static_cast<double>(RankCaches::bytes(plan, holding.room, holding.real));
  };
  add(plans.front());
  const auto first_draft = std::find_if(plans.begin(), plans.end(), [](const Plan& p) { return p.draft; });
  if (first_draft != plans.end()) add(*first_draft);
  for (const Plan& plan : plans) {
    const host::ModelView view = plan.draft ? host::view_of(*config.draft) : target;
    const auto bytes = static_cast<double>(RankPass::bytes(plan, view, holding));
    need.passes = config.measure.cuda.generate ? need.passes + bytes : std::max(need.passes, bytes);
  }
  need.fixed = static_cast<double>(Products::workspace_bytes) + loaded_kernels;
  if (config.parallel.tensor > 1 && !plays_one_rank(config)) need.fixed += nccl_buffers;
  return need;
}

namespace {

std::string what_would_fit(const RunConfig& config, double available, bool too_many_weights) {
  RunConfig smaller = config;
  std::int64_t& number = too_many_weights ? smaller.stack.layers : smaller.workload.batch;
  const char* key = too_many_weights ? "stack.layers" : "workload.batch";
  const std::int64_t best = largest_that(number, [&](std::int64_t value) {
    number = value;
    return memory_need(smaller, WeightSharing()).total() <= available;
  });
  if (best == 0)
    return too_many_weights ? "not even one layer of it fits" : "not even one sequence of this length fits";
  number = best;
  return formatted("{}={} needs {}", key, best, bytes_text(memory_need(smaller, WeightSharing()).total()));
}

}  // namespace

WeightSharing fit(const RunConfig& config, double available, double cache_bytes) {
  const MemoryNeed whole = memory_need(config, WeightSharing());
  const double rest = whole.total() - whole.weights;
  const double pool = config.measure.cuda.weight_pool_gib * gib;
  const bool by_pool = pool > 0 && pool < available - rest;
  const double budget = by_pool ? pool : available - rest;
  if (whole.weights <= budget) return WeightSharing();
  const auto too_small_a_pool = [&](const std::string& what, const std::string& allowed) {
    throw InputError({{}, "measure.cuda.weight_pool_gib", bytes_text(pool) + what, allowed});
  };
  const auto refuse = [&](const std::string& why, bool too_many_weights) {
    throw InputError({{},
                      too_many_weights ? "stack" : "workload",
                      formatted("{} needs {} of a GPU's memory (weights {}, caches {}, passes {}, libraries {}){}",
                                config.stack.name, bytes_text(whole.total()), bytes_text(whole.weights),
                                bytes_text(whole.caches), bytes_text(whole.passes), bytes_text(whole.fixed), why),
                      formatted("at most the {} that are free: {}", bytes_text(available),
                                what_would_fit(config, available, too_many_weights))});
  };
  if (config.measure.cuda.generate) {
    if (by_pool)
      too_small_a_pool(" leaves layers to share weights, but real tokens need every layer's own",
                       "0 with measure.cuda.generate");
    RunConfig single = config;
    single.workload.batch = 1;
    const bool too_many_weights = memory_need(single, WeightSharing()).total() > available;
    refuse("; real tokens need every layer's own weights", too_many_weights);
  }
  if (budget <= 0) refuse("", false);
  WeightSharing sharing(std::max(budget, 0.0) / whole.weights);
  // Layers are whole: what one more would take may not fit.
  for (int i = 0; i < 64 && memory_need(config, sharing).weights > budget; ++i)
    sharing = WeightSharing(sharing.share() * 0.97);
  const double weights = memory_need(config, sharing).weights;
  if (weights > budget && by_pool) {
    const double least = memory_need(config, WeightSharing(1e-6)).weights;  // one layer of each kind
    too_small_a_pool(" does not hold one layer of each kind, which all others share",
                     formatted("at least {:.2f}", std::ceil(100 * least / gib) / 100));
  }
  if (weights > budget) refuse("; even one layer of each kind, which all others share, is too much", true);
  if (weights < 2 * cache_bytes && by_pool)
    too_small_a_pool(formatted(" holds {} of whole layers, which would lie in the GPU's cache", bytes_text(weights)),
                     formatted("enough for more than {}, or 0 for what is free", bytes_text(2 * cache_bytes)));
  if (weights < 2 * cache_bytes)
    refuse(formatted("; what is left for shared weights, {}, would lie in the GPU's cache", bytes_text(weights)), true);
  return sharing;
}

}  // namespace specstep::cuda
