// The ledger in lines, and the error of an engine that does not start.

#include <algorithm>
#include <cmath>

#include "model/base/formatted.h"
#include "model/base/units.h"
#include "sim/engine/budget.h"
#include "sim/engine/largest.h"

namespace specstep {

namespace {

double reserve_mib(const MemoryBudget& b) {
  double sum = 0;
  for (const ReserveTerm& t : b.fraction.terms) sum += t.mib;
  return sum;
}

std::string share_text(const MemoryBudget& b) {
  std::string same;
  if (b.graphs_in_pool && b.graphs > 0)
    same = formatted("; {:.4f} gives the same pool to an engine that does not estimate its graphs",
                     equivalent_shares(b.fraction.value, b.graphs, b.usable).down);
  if (!b.automatic) return formatted("{}", b.fraction.value) + same;
  if (b.fraction.terms.empty()) return formatted("{}, the engine's default", b.fraction.value) + same;
  const double board = std::round(b.board / mib);
  return formatted("{:.4f} = ({:.0f} - {:.0f} MiB) / {:.0f}", b.fraction.value, board, reserve_mib(b), board) +
         (b.fraction.vision_factor != 1 ? formatted(" x {:.5f} for pictures", b.fraction.vision_factor) : "");
}

std::string reserve_text(const MemoryBudget& b) {
  std::string out = "MiB: ";
  for (const ReserveTerm& t : b.fraction.terms)
    out += formatted("{}{:.0f} ({})", out.size() > 5 ? " + " : "", t.mib, t.what);
  return out;
}

/// What the share is of, and what is taken from it.
std::string pool_text(const MemoryBudget& b) {
  const double f = b.fraction.value;
  if (b.rule == "utilisation")
    return formatted("share - {:.2f} GiB taken before - weights - activations{}", (b.usable - b.free_before) / gib,
                     b.graphs_in_pool ? " - graphs" : "");
  if (b.rule == "free_share") return formatted("{:.4f} of what weights and activations leave free", f);
  return formatted("{:.4f} x {:.2f} GiB free - {:.2f} GiB of weights", f, b.free_before / gib, b.weights / gib);
}

}  // namespace

std::vector<MemoryTerm> memory_terms(const MemoryBudget& b) {
  const auto how = [](bool given, std::string computed) { return given ? std::string("given") : std::move(computed); };
  std::vector<MemoryTerm> out;
  out.push_back({"board", b.board, "as nvidia-smi tells it", false});
  if (b.usable < b.board) out.push_back({"usable", b.usable, "what CUDA offers", false});
  out.push_back({"context", b.context, "CUDA context, kernels, driver", false});
  out.insert(out.end(), b.comm.begin(), b.comm.end());
  out.push_back({"free before weights", b.free_before, how(b.free_given, "what these leave"), b.free_given});
  out.push_back({"weights", b.weights, how(b.weights_given, "by the stack's formats"), b.weights_given});
  if (b.draft_weights > 0)
    out.push_back({"draft weights", b.draft_weights, how(b.draft_given, "by the draft's formats"), b.draft_given});
  out.push_back({"activations", b.activations,
                 how(b.activations_given, formatted("all buffers of a prefill of {} tokens", grouped(b.chunk_tokens))),
                 b.activations_given});
  out.push_back(
      {"graphs", b.graphs, how(b.graphs_given, b.graphs_how.empty() ? "none" : b.graphs_how), b.graphs_given});
  if (!b.fraction.terms.empty()) out.push_back({"reserve", reserve_mib(b) * mib, reserve_text(b), false});
  if (b.rule != "free_share")
    out.push_back(
        {"share", b.fraction.value * (b.rule == "utilisation" ? b.usable : b.free_before), share_text(b), false});
  out.push_back(
      {"KV pool", b.kv,
       formatted("{}: {} tokens of {} B{}, {} requests of {}", pool_text(b), grouped(b.kv_tokens),
                 grouped(std::llround(b.kv_per_token)),
                 b.kv_per_sequence > 0 ? formatted(" beside {} a sequence", bytes_text(b.kv_per_sequence)) : "",
                 b.largest_batch, grouped(b.request_tokens)),
       false});
  out.push_back({"left free", b.left, "once all this is taken", false});
  return out;
}

namespace {

/// The smallest thousandth of the share with which the engine starts; 0 when none does.
double least_fraction(RunConfig config) {
  const std::int64_t fails = largest_that(999, [&](std::int64_t thousandths) {
    config.engine.memory.fraction = static_cast<double>(thousandths) / 1000;
    return !memory_budget(config).starts();
  });
  return fails >= 999 ? 0 : static_cast<double>(fails + 1) / 1000;
}

/// The most sequences to capture with which the automatic share is enough; 0 when none is.
std::int64_t most_captured(RunConfig config, std::int64_t now) {
  return largest_that(now, [&](std::int64_t batch) {
    config.engine.graph.sizes = {};
    config.engine.graph.max_batch = batch;
    return memory_budget(config).starts();
  });
}

/// The largest thousandth of the share with which everything fits; 0 when none does.
double most_fraction(RunConfig config) {
  const auto budget = [&](std::int64_t thousandths) {
    config.engine.memory.fraction = static_cast<double>(thousandths) / 1000;
    return memory_budget(config);
  };
  const std::int64_t fits = largest_that(999, [&](std::int64_t t) { return budget(t).left >= 0; });
  return fits > 0 && budget(fits).serves() ? static_cast<double>(fits) / 1000 : 0;
}

/// Of an engine that has sized its pool and then needs more than is left.
std::string out_of_memory(const RunConfig& config, const MemoryBudget& b) {
  const double fraction = most_fraction(config);
  return formatted(
      "CUDA out of memory. graphs ({:.2f} GiB) and activations of a prefill of {} tokens ({:.2f} GiB) miss {:.2f} GiB "
      "once {} has sized its KV pool ({:.2f} GiB). It would start with {}fewer graphs, or a smaller "
      "engine.memory.chunk_tokens",
      b.graphs / gib, grouped(b.chunk_tokens), b.activations / gib, -b.left / gib, name_of(config.engine.preset),
      b.kv / gib, fraction > 0 ? formatted("engine.memory.fraction={:.3f} or less, ", fraction) : "");
}

/// What the engine's share comes to.
std::string taken_text(const RunConfig& config, const MemoryBudget& b) {
  const std::string engine = name_of(config.engine.preset);
  const double of = b.rule == "utilisation" ? b.usable : b.free_before;
  if (of <= 0)
    return formatted("{} finds no memory free: {:.2f} GiB are taken of {:.2f} GiB", engine,
                     (b.usable - b.free_before) / gib, b.usable / gib);
  if (b.fraction.value <= 0)
    return formatted("{} keeps {:.2f} GiB in reserve (automatic), and the GPU has {:.2f} GiB", engine,
                     reserve_mib(b) * mib / gib, b.board / gib);
  return formatted("{} takes {:.4f}{} of {:.2f} GiB", engine, b.fraction.value, b.automatic ? " (automatic)" : "",
                   of / gib);
}

/// What would leave a pool.
std::string ways_to_start(const RunConfig& config, const MemoryBudget& b, MemoryRule rule) {
  std::vector<std::string> ways;
  const double fraction = least_fraction(config);
  if (fraction > b.fraction.value) ways.push_back(formatted("engine.memory.fraction={:.3f} or more", fraction));
  const bool by_reserve = b.automatic && !b.fraction.terms.empty() && rule != MemoryRule::fixed_2025;
  if (by_reserve) {
    const std::int64_t now = std::max<std::int64_t>(config.engine.graph.max_batch.value_or(512), 1);
    const std::int64_t most = most_captured(config, now);
    if (most > 0 && most < now) ways.push_back(formatted("engine.graph.max_batch={} or less", most));
  }
  const double room = b.weights + b.kv;
  if (room > 0) ways.push_back(formatted("weights below {:.1f} GiB, by a smaller format or more ranks", room / gib));
  if (ways.empty()) ways.emplace_back("a larger GPU, or more ranks");
  return one_of(ways);
}

}  // namespace

std::string start_refusal(const RunConfig& config, const MemoryBudget& b) {
  if (b.serves()) return "";
  if (b.starts() && b.left < 0) return out_of_memory(config, b);
  if (b.starts())
    return formatted("{} would refuse the request: its KV pool holds {} tokens, less than the {} of one request",
                     name_of(config.engine.preset), grouped(b.kv_tokens), grouped(b.request_tokens));
  const MemoryRule rule = memory_rule(config.engine.memory, config.engine.preset, config.engine.version);
  return formatted("{} {}, and the weights need {:.2f} GiB: the KV pool would have {:.2f} GiB. It would start with {}",
                   start_error(rule), taken_text(config, b),
                   (b.weights + (b.rule == "utilisation" ? b.draft_weights : 0)) / gib, b.kv / gib,
                   ways_to_start(config, b, rule));
}

}  // namespace specstep
