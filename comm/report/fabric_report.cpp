// Layout of the fabric report.
#include "comm/report/fabric_report.h"

#include <fmt/format.h>

#include "comm/report/drawing.h"

namespace specstep::comm {
namespace {

std::string gb_s(double bytes_per_second) { return fmt::format("{:.1f}", bytes_per_second / 1e9); }

std::string pattern_table(const Topology& t) {
  std::string text = fmt::format("{:<42} {:<6} {:>5} {:>11} {:>12}  {}\n", "pattern", "by", "flows", "total GB/s",
                                 "slowest GB/s", "held back by");
  for (const Pattern& pattern : standard_patterns(t)) {
    const PatternRate rate = rate_of(t, pattern, true);
    text += fmt::format("{:<42} {:<6} {:>5} {:>11} {:>12}  {}\n", rate.name, name_of(rate.operation), rate.flows,
                        gb_s(rate.total), gb_s(rate.least), rate.limit);
  }
  return text;
}

std::string findings_text(const std::vector<Finding>& findings) {
  std::string text;
  int suspicious = 0;
  for (const Finding& f : findings) {
    if (!f.suspicious) continue;
    ++suspicious;
    text += fmt::format("{} ({}): {} GB/s measured, {} expected\n  likely: {}\n  remedy: {}\n", f.expected.name,
                        name_of(f.expected.operation), gb_s(f.measured), gb_s(f.expected.total), f.cause, f.remedy);
  }
  if (suspicious == 0) text += "nothing looks broken\n";
  return fmt::format("{} of {} measured patterns are below 70 % of what a healthy fabric of this layout gives\n",
                     suspicious, findings.size()) +
         text;
}

}  // namespace

std::string fabric_report(const Topology& topology, const std::vector<MeasuredRate>& measured) {
  std::string text = topology.spec().summary + "\n\n" + drawing(topology) + "\nWhat patterns of copies get\n" +
                     pattern_table(topology);
  if (!measured.empty()) text += "\nMeasured\n" + findings_text(diagnose(topology, measured));
  return text;
}

}  // namespace specstep::comm
