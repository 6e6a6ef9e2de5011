// Layout of the fabric report.
#include "comm/report/fabric_report.h"

#include <nlohmann/json.hpp>

#include "comm/report/drawing.h"
#include "model/base/formatted.h"

namespace specstep::comm {
namespace {

std::string gb_s(double bytes_per_second) { return formatted("{:.1f}", bytes_per_second / 1e9); }

std::string pattern_table(const Topology& t) {
  std::string text = formatted("{:<42} {:<6} {:>5} {:>11} {:>12}  {}\n", "pattern", "by", "flows", "total GB/s",
                               "slowest GB/s", "held back by");
  for (const Pattern& pattern : standard_patterns(t)) {
    const PatternRate rate = rate_of(t, pattern, true);
    text += formatted("{:<42} {:<6} {:>5} {:>11} {:>12}  {}\n", rate.name, name_of(rate.operation), rate.flows,
                      gb_s(rate.total), gb_s(rate.least), rate.limit);
  }
  return text;
}

std::string findings_text(const std::vector<Finding>& findings) {
  std::string text;
  int suspicious = 0;
  int above = 0;
  for (const Finding& f : findings) {
    suspicious += f.suspicious ? 1 : 0;
    above += f.above ? 1 : 0;
    if (!f.suspicious && !f.above) continue;
    text += formatted("{} ({}): {} GB/s measured, {} expected\n  likely: {}\n  remedy: {}\n", f.expected.name,
                      name_of(f.expected.operation), gb_s(f.measured), gb_s(f.expected.total), f.cause, f.remedy);
  }
  if (suspicious + above == 0) text += "nothing looks broken\n";
  if (above > 0) text += formatted("{} of {} are above what the links give\n", above, findings.size());
  return formatted("{} of {} measured patterns are below 70 % of what a healthy fabric of this layout gives\n",
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

nlohmann::ordered_json fabric_json(const Topology& t, const std::vector<MeasuredRate>& measured) {
  using Json = nlohmann::ordered_json;
  Json out{{"schema", "specstep.fabric/1"}, {"summary", t.spec().summary}, {"gpus", Json::array()}};
  for (int gpu : t.gpus()) out["gpus"].push_back(t.node(gpu).id);
  for (const char* key : {"links", "patterns", "findings"}) out[key] = Json::array();
  for (const Link& link : t.links())
    out["links"].push_back({{"from", t.node(link.from).id},
                            {"to", t.node(link.to).id},
                            {"kind", name_of(link.kind)},
                            {"bytes_per_second", link.bytes_per_second},
                            {"latency_seconds", link.latency},
                            {"generation", link.generation},
                            {"width", link.width}});
  for (const Pattern& pattern : standard_patterns(t)) {
    const PatternRate rate = rate_of(t, pattern, true);
    out["patterns"].push_back({{"name", rate.name},
                               {"operation", name_of(rate.operation)},
                               {"flows", rate.flows},
                               {"bytes_per_second", rate.total},
                               {"slowest_bytes_per_second", rate.least},
                               {"limit", rate.limit}});
  }
  for (const Finding& f : diagnose(t, measured))
    out["findings"].push_back({{"name", f.expected.name},
                               {"operation", name_of(f.expected.operation)},
                               {"measured_bytes_per_second", f.measured},
                               {"expected_bytes_per_second", f.expected.total},
                               {"suspicious", f.suspicious},
                               {"above", f.above},
                               {"cause", f.cause},
                               {"remedy", f.remedy}});
  return out;
}

}  // namespace specstep::comm
