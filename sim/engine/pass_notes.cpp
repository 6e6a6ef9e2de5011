#include "sim/engine/pass_notes.h"

#include <algorithm>
#include <numeric>

#include "model/base/formatted.h"
#include "model/base/units.h"

namespace specstep {

std::string pass_name(bool draft_model, PassKind kind) { return (draft_model ? "draft's " : "") + name_of(kind); }

void PassNotes::add(const std::string& name, const PhaseResult& pass, const DeviceTrace& trace) {
  const auto known = std::find_if(phases_.begin(), phases_.end(), [&](const auto& p) { return p.first == name; });
  const auto phase = known == phases_.end() ? phases_.insert(known, {name, {}}) : known;
  phase->second.push_back({trace, pass.experts_met, pass.local_experts, pass.experts_expected});
}

namespace {

using TracedPasses = std::vector<const TracedPass*>;

/// Figures of passes for one line.
class PassFigures {
 public:
  explicit PassFigures(const TracedPasses& passes) : passes_(passes) {}
  /// "99.2", or "99.0 to 99.3" where passes differ in the digits shown.
  template <class Of>
  std::string figure(int digits, Of&& of) {
    auto least = static_cast<double>(of(*passes_.front())), most = least;
    for (const TracedPass* pass : passes_) {
      least = std::min(least, static_cast<double>(of(*pass)));
      most = std::max(most, static_cast<double>(of(*pass)));
    }
    const std::string low = formatted("{:.{}f}", least, digits), high = formatted("{:.{}f}", most, digits);
    if (low == high) return low;
    ranges_ = true;
    return low + " to " + high;
  }
  /// A line of these figures; one with a range says over how many passes.
  std::string line(const std::string& text) const {
    return ranges_ ? formatted("{} ({} passes)", text, passes_.size()) : text;
  }

 private:
  const TracedPasses& passes_;
  bool ranges_ = false;
};

std::string graph_line(const std::string& name, const TracedPasses& passes) {
  PassFigures of(passes);
  const std::string nodes = of.figure(0, [](const TracedPass& p) { return p.trace.graph_nodes; });
  const std::string reduces = of.figure(0, [](const TracedPass& p) { return p.trace.graph_allreduces; });
  const std::string theirs = of.figure(0, [](const TracedPass& p) { return p.trace.allreduce_nodes; });
  return of.line(formatted("{}: a graph of {} nodes, {} allreduces in it ({} nodes)", name, nodes, reduces, theirs));
}

std::string experts_line(const std::string& name, const TracedPasses& passes) {
  PassFigures of(passes);
  const std::string mean = of.figure(1, [](const TracedPass& p) {
    return std::accumulate(p.met.begin(), p.met.end(), 0.0) / static_cast<double>(p.met.size());
  });
  const std::string expected = of.figure(1, [](const TracedPass& p) { return p.expected; });
  std::vector<std::int32_t> all;
  for (const TracedPass* pass : passes) all.insert(all.end(), pass->met.begin(), pass->met.end());
  return of.line(formatted("{}: {} of {} local experts met in a layer ({} to {}), expected {}", name, mean,
                           passes.front()->local_experts, *std::min_element(all.begin(), all.end()),
                           *std::max_element(all.begin(), all.end()), expected));
}

std::string sums_line(const std::string& name, const TracedPasses& passes) {
  PassFigures of(passes);
  const std::string isolated = of.figure(1, [](const TracedPass& p) { return 100 * p.trace.isolated_share; });
  const std::string inside = of.figure(1, [](const TracedPass& p) { return 100 * p.trace.inside_share; });
  return of.line(formatted("{}: the isolated steps sum to {} % of the pass, the steps inside a traced one to {} %",
                           name, isolated, inside));
}

std::string in_situ_line(const std::string& name, const TracedPasses& passes) {
  PassFigures of(passes);
  const std::string transfer = of.figure(2, [](const TracedPass& p) { return p.trace.in_situ->transfer / us; });
  const std::string error = of.figure(2, [](const TracedPass& p) { return p.trace.in_situ->clock_error / us; });
  const std::string none = "no longer than the clocks tell";
  const auto told =
      std::count_if(passes.begin(), passes.end(), [](const auto* p) { return p->trace.in_situ->wait > 0; });
  std::string wait = of.figure(2, [](const TracedPass& p) { return p.trace.in_situ->wait / us; }) + " us";
  if (told == 0)
    wait = none;
  else if (told < std::ssize(passes))
    wait += formatted(", where it is 0 {},", none);
  return of.line(
      formatted("{}: an allreduce in situ takes {} us from the last arrival on; the first rank waits {} for that "
                "(clocks within {} us, medians)",
                name, transfer, wait, error));
}

std::string clocks_line(const std::string& name, const TracedPasses& passes) {
  PassFigures of(passes);
  const std::string error = of.figure(2, [](const TracedPass& p) { return p.trace.in_situ->clock_error / us; });
  return of.line(
      formatted("{}: allreduce in situ: not split, the clocks of the GPUs are known to {} us, which is no less than "
                "the transfer",
                name, error));
}

}  // namespace

std::vector<std::string> PassNotes::lines() const {
  std::vector<std::string> out;
  for (const auto& [name, passes] : phases_) {
    const auto tell = [&, &name = name, &passes = passes](auto&& line, auto&& has) {
      TracedPasses those;
      for (const TracedPass& pass : passes)
        if (has(pass)) those.push_back(&pass);
      if (!those.empty()) out.push_back(line(name, those));
    };
    const auto compared = [](const TracedPass& p) { return p.trace.in_situ && p.trace.in_situ->refused.empty(); };
    tell(graph_line, [](const TracedPass& p) { return p.trace.graph_nodes > 0; });
    tell(experts_line, [](const TracedPass& p) { return !p.met.empty(); });
    tell(sums_line, [](const TracedPass&) { return true; });
    tell(in_situ_line, [&](const TracedPass& p) { return compared(p) && p.trace.in_situ->told(); });
    tell(clocks_line, [&](const TracedPass& p) { return compared(p) && !p.trace.in_situ->told(); });
    for (const TracedPass& pass : passes) {
      if (!pass.trace.in_situ || pass.trace.in_situ->refused.empty()) continue;
      const std::string why = "allreduce in situ: not split, " + pass.trace.in_situ->refused;
      if (std::find(out.begin(), out.end(), why) == out.end()) out.push_back(why);  // of no phase in particular
    }
  }
  return out;
}

}  // namespace specstep
