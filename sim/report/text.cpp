// Results as text for a terminal.

#include <algorithm>

#include "model/base/formatted.h"
#include "model/base/units.h"
#include "sim/report/memory_report.h"
#include "sim/report/metrics.h"
#include "sim/report/result.h"

namespace specstep {

std::string figure_text(double value) {
  const double size = value < 0 ? -value : value;
  if (value == static_cast<double>(static_cast<long long>(value)) && size < 1e15) return formatted("{:.0f}", value);
  return formatted("{:.{}f}", value, size >= 100 ? 1 : size >= 10 ? 2 : 3);
}

namespace {

std::string shape_of(const SpeculationSpec& s) {
  if (!s.tree) return formatted("draft length {}", s.draft_length);
  return formatted("tree of {} steps, top {}, {} tokens verified", s.tree->steps, s.tree->topk, s.tree->verify_tokens);
}

std::string header(const RunResult& r) {
  const RunConfig& c = r.config;
  std::string out = c.name.empty() ? c.stack.name : c.name;
  out += formatted("\n  {} on {}, tensor parallel {}, batch {}, {} prompt + {} output tokens, {} executor\n",
                   c.stack.name, c.machine.name, c.parallel.tensor, c.workload.batch, c.workload.prompt_tokens,
                   c.workload.output_tokens, r.executor);
  std::string comm = c.comm.rows().empty() ? c.comm.pick(0) : "";
  for (const CommRule& rule : c.comm.rows())
    comm += rule.up_to_kib ? formatted("{} up to {} KiB, ", rule.backend, *rule.up_to_kib) : rule.backend;
  out += formatted("  collectives by {}; ", comm);
  if (c.speculative())
    out += formatted("{}, {}\n", name_of(c.speculation.method), shape_of(c.speculation));
  else
    out += "no speculation\n";
  if (!c.note.empty()) out += "  " + c.note + "\n";
  return out;
}

/// Low and high of a measured metric; nothing for a price, which has no samples.
std::string range(const Metric& m) {
  return m.samples.size() > 1 ? formatted(" ({} to {})", figure_text(m.low), figure_text(m.high)) : "";
}

std::string metrics_table(const RunResult& r) {
  std::string out;
  for (const MetricRow& row : metric_rows()) {
    const auto found = r.metrics.find(std::string(row.name));
    if (found != r.metrics.end())
      out += formatted("  {:<40} {:>12} {}{}\n", row.name, figure_text(found->second.value), row.unit,
                       range(found->second));
  }
  return out;
}

std::string allreduces_text(const PhaseResult& p) {
  return p.allreduces > 0 ? formatted("{} x {} B", p.allreduces, grouped(p.allreduce_bytes)) : std::string("none");
}

std::string breakdown_table(const RunResult& r) {
  std::string out = "\nwhere a pass spends its time, ms\n";
  std::size_t width = 18;  // of a column: two blanks, then its longest cell
  for (const PhaseResult& p : r.phases) width = std::max(width, allreduces_text(p).size() + 2);
  out += formatted("  {:<12}", "");
  for (const PhaseResult& p : r.phases) out += formatted("{:>{}}", name_of(p.kind), width);
  out += "\n";
  for (std::size_t i = 0; i < part_count; ++i) {
    const bool any =
        std::any_of(r.phases.begin(), r.phases.end(), [i](const PhaseResult& p) { return p.parts[i] > 0; });
    if (!any) continue;
    out += formatted("  {:<12}", EnumNames<Part>::names()[i]);
    for (const PhaseResult& p : r.phases)
      out += formatted("{:>{}.3f} {:>5.1f} %", p.parts[i] / ms, width - 8, 100 * p.parts[i] / p.seconds);
    out += "\n";
  }
  const auto row = [&](const char* name, auto value) {
    out += formatted("  {:<12}", name);
    for (const PhaseResult& p : r.phases) out += formatted("{:>{}}", value(p), width);
    out += "\n";
  };
  row("total", [](const PhaseResult& p) { return formatted("{:.3f}        ", p.seconds / ms); });
  row("launched", [](const PhaseResult& p) { return name_of(p.launch) + "  "; });
  row("kernels", [](const PhaseResult& p) { return formatted("{:.0f}        ", p.cost.nodes); });
  row("tokens", [](const PhaseResult& p) { return formatted("{}        ", p.tokens); });
  row("allreduces", allreduces_text);
  row("one takes", [](const PhaseResult& p) {
    return p.allreduces > 0 ? seconds_text(p.allreduce_seconds) + "  " : std::string("-");
  });
  row("moves", [](const PhaseResult& p) { return bytes_text(p.cost.bytes()) + "  "; });
  return out;
}

/// What a client sees of acceptance, and why a cycle costs more than a decode step.
std::string speculation_lines(const RunResult& r) {
  std::string out;
  if (r.acceptance) {
    out += formatted("\nacceptance: length {:.3f}, rate {:.1f} %, accepted by position", r.acceptance->length(),
                     100 * r.acceptance->rate());
    for (const double s : r.acceptance->survival()) out += formatted(" {:.3f}", s);
    out += "\n";
  }
  if (r.cycle_terms.empty()) return out;
  double all = 0;
  for (const CycleTerm& term : r.cycle_terms) all += term.seconds;
  out += formatted("a cycle lasts {:.3f} ms longer than a decode step:", all / ms);
  for (std::size_t i = 0; i < std::min<std::size_t>(r.cycle_terms.size(), 4); ++i)
    out += formatted("{} {} {:+.3f}", i > 0 ? "," : "", r.cycle_terms[i].name, r.cycle_terms[i].seconds / ms);
  return out + (r.cycle_terms.size() > 4 ? ", ...\n" : "\n");
}

std::string generation_line(const RunResult& r) {
  const GeneratedText& g = *r.generation;
  if (!r.config.speculative()) return formatted("generated text: {}\n", g.digest);
  if (g.first_difference < 0) return formatted("generated text: {}, the plain text token for token\n", g.digest);
  return formatted("generated text: {}, from token {} on other than the plain one, {}{}\n", g.digest,
                   g.first_difference, g.plain_digest,
                   r.config.measure.host.temperature > 0 ? ": both are samples" : "");
}

std::string provenance_line(const RunResult& r) {
  std::string out = "\ntime by source of the numbers:";
  for (const auto& [source, share] : r.provenance)
    if (source != "extrapolated") out += formatted(" {} {:.0f} %,", source, 100 * share);
  out.back() = '\n';
  const auto extrapolated = r.provenance.find("extrapolated");
  if (extrapolated != r.provenance.end() && extrapolated->second > 0)
    out += formatted("  {:.0f} % outside the range that the numbers were checked in\n", 100 * extrapolated->second);
  if (r.generation) out += generation_line(r);
  for (const std::string& note : r.notes) out += "note: " + note + "\n";
  return out;
}

}  // namespace

std::string to_text(const RunResult& r) {
  const std::string memory = r.memory ? memory_text(*r.memory) : "";
  return header(r) + "\n" + metrics_table(r) + breakdown_table(r) + speculation_lines(r) + memory + provenance_line(r);
}

}  // namespace specstep
