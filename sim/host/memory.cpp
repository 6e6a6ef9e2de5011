#include "sim/host/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

#include "model/base/formatted.h"
#include "model/base/units.h"
#include "model/build_plan.h"
#include "sim/engine/largest.h"
#include "sim/plan_options.h"

namespace specstep::host {

namespace {

constexpr double value_bytes = 4;

double stored(const Plan& plan) {
  double values = 0;
  for (const Weight& w : plan.weights)
    values += static_cast<double>(w.count) * static_cast<double>(w.rows) * static_cast<double>(w.cols);
  return values * value_bytes * static_cast<double>(plan.layout.tensor);
}

/// Cached values of every layer for `tokens` tokens of each sequence; states of linear layers once for each node of a
/// pass as well, so that a rejected draft can be undone.
double cached(const Plan& plan, double sequences, double tokens, double nodes) {
  double values = 0;
  for (const Step& step : plan.steps) {
    if (const auto* a = std::get_if<Attention>(&step.op)) values += tokens * static_cast<double>(a->cached_values);
    if (const auto* s = std::get_if<SparseIndex>(&step.op)) values += tokens * static_cast<double>(s->dim);
    if (const auto* l = std::get_if<LinearAttention>(&step.op))
      values += (1 + nodes) * static_cast<double>(l->value_heads * l->key_dim * l->value_dim);
  }
  return values * sequences * value_bytes * static_cast<double>(plan.layout.tensor);
}

double buffered(const Plan& plan) {
  double values = 0;
  for (const Buffer& b : plan.buffers) values += static_cast<double>(b.rows) * static_cast<double>(b.cols);
  return values * value_bytes * static_cast<double>(plan.layout.tensor);
}

std::optional<double> number_in(const std::string& path) {
  std::ifstream file(path);
  double value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

}  // namespace

MemoryNeed memory_need(const RunConfig& config) {
  const WorkloadSpec& work = config.workload;
  const PlanOptions options = plan_options(config);
  const PassShape prefill{PassKind::prefill, work.batch, work.prompt_tokens, 0};
  const auto sequences = static_cast<double>(work.batch);
  const auto nodes = static_cast<double>(config.speculative() ? config.speculation.verify_tokens() : 1);
  const double tokens = static_cast<double>(work.prompt_tokens + work.output_tokens) + 2 * nodes;
  MemoryNeed need;
  const auto add = [&](const Plan& all_weights, const Plan& first) {
    need.weights += stored(all_weights);
    need.caches += cached(all_weights, sequences, tokens, std::max(nodes, static_cast<double>(work.prompt_tokens)));
    need.activations += buffered(first);
  };
  const Plan target = build_plan(config.stack, config.parallel, prefill, options);
  add(target, target);
  if (config.drafts_with_model()) {
    const Plan draft = build_draft_plan(*config.draft, config.parallel, prefill, options);
    add(draft, draft);
  }
  return need;
}

double memory_available() {
  double least = std::numeric_limits<double>::infinity();
  std::ifstream meminfo("/proc/meminfo");
  for (std::string line; std::getline(meminfo, line);) {
    if (!line.starts_with("MemAvailable:")) continue;
    double value = 0;
    std::istringstream(line.substr(line.find(':') + 1)) >> value;
    least = value * kib;
  }
  const auto limited = [&](const std::string& limit, const std::string& used) {
    const auto most = number_in(limit);  // "max" is no number: no limit
    if (most) least = std::min(least, std::max(*most - number_in(used).value_or(0), 0.0));
  };
  limited("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current");
  limited("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes");
  return least;
}

namespace {

/// Fewer sequences where the weights are not what is too large, else fewer layers.
std::string what_would_fit(const RunConfig& config, double available) {
  RunConfig smaller = config;
  const auto with = [&](std::int64_t& number, const char* key, std::int64_t most) {
    const std::int64_t best = largest_that(most, [&](std::int64_t value) {
      number = value;
      return memory_need(smaller).total() <= available;
    });
    if (best == 0) return std::string();
    number = best;
    return formatted("{}={} needs {}", key, best, bytes_text(memory_need(smaller).total()));
  };
  if (memory_need(config).weights <= available) {
    const std::string fewer = with(smaller.workload.batch, "workload.batch", config.workload.batch);
    return fewer.empty() ? "not even one sequence of this length fits; shorter prompts or outputs do" : fewer;
  }
  const std::string fewer = with(smaller.stack.layers, "stack.layers", config.stack.layers);
  return fewer.empty() ? "not even one layer of it fits; the stack 'tiny' does, or use the cost executor" : fewer;
}

}  // namespace

void require_memory(const RunConfig& config, double available) {
  const MemoryNeed need = memory_need(config);
  if (need.total() <= available) return;
  throw InputError(
      {{},
       need.weights <= available ? "workload" : "stack",
       formatted("{} needs {} of this host's memory on {} ranks (weights {}, caches {}, activations {}, "
                 "all held as fp32)",
                 config.stack.name, bytes_text(need.total()), config.parallel.tensor, bytes_text(need.weights),
                 bytes_text(need.caches), bytes_text(need.activations)),
       formatted("at most the {} that are free: {}", bytes_text(available), what_would_fit(config, available))});
}

}  // namespace specstep::host
