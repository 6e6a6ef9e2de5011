// Results as JSON and CSV.

#include <nlohmann/json.hpp>

#include "model/base/formatted.h"
#include "sim/environment.h"
#include "sim/report/memory_report.h"
#include "sim/report/metrics.h"
#include "sim/report/result.h"

namespace specstep {

using Json = nlohmann::ordered_json;

namespace {

Json steps_json(const PassSteps& steps) {
  Json out = Json::array();
  for (const StepRow& row : steps.rows) {
    Json one = {{"label", name_of(row.kind)},
                {"op", op_name(row.op)},
                {"shape", op_text(row.op)},
                {"part", name_of(row.part)},
                {"count", row.count},
                {"seconds", row.seconds},
                {"gb_s", gb_per_second(row.cost, row.seconds)},
                {"bytes", row.cost.bytes()},
                {"weight_bytes", row.cost.weight_bytes},
                {"flops", row.cost.flops}};
    if (row.cost.comm_bytes > 0) one["comm_bytes"] = row.cost.comm_bytes;
    one.update({{"provenance", name_of(row.provenance)}, {"extrapolated", row.extrapolated}});
    out.push_back(std::move(one));
  }
  return out;
}

Json phase_json(const PhaseResult& p) {
  Json parts;
  for (std::size_t i = 0; i < part_count; ++i) parts[EnumNames<Part>::names()[i]] = p.parts[i];
  Json out = {{"seconds", p.seconds},
              {"tokens", p.tokens},
              {"launch", name_of(p.launch)},
              {"passes_per_cycle", p.passes_per_cycle},
              {"allreduces", p.allreduces},
              {"allreduces_in_layer", p.allreduces_in_layer},
              {"allreduce_bytes", p.allreduce_bytes},
              {"allreduce_seconds", p.parts[static_cast<std::size_t>(Part::allreduce)]},
              {"breakdown", std::move(parts)},
              {"flops", p.cost.flops},
              {"bytes", p.cost.bytes()},
              {"weight_bytes", p.cost.weight_bytes},
              {"kv_bytes", p.cost.kv_bytes},
              {"activation_bytes", p.cost.activation_bytes},
              {"nodes", p.cost.nodes},
              {"host_launch_seconds", p.host_seconds},
              {"steps", steps_json(p.steps)}};
  if (p.local_experts > 0) {
    out["experts"] = {{"local", p.local_experts}, {"expected", p.experts_expected}};
    if (!p.experts_met.empty()) out["experts"]["met"] = p.experts_met;
  }
  return out;
}

Json metrics_json(const RunResult& r) {
  Json out = Json::object();
  for (const MetricRow& row : metric_rows()) {
    const auto found = r.metrics.find(std::string(row.name));
    if (found == r.metrics.end()) continue;
    const Metric& m = found->second;
    out[std::string(row.name)] = {
        {"value", m.value},      {"unit", row.unit}, {"better", row.better == Better::higher ? "higher" : "lower"},
        {"samples", m.samples},  {"low", m.low},     {"high", m.high},
        {"interval", m.interval}};
  }
  return out;
}

}  // namespace

Json to_json(const RunResult& r) {
  const Json canonical = dump_config(r.config);
  Json phases = Json::object();
  for (const PhaseResult& p : r.phases) phases[name_of(p.kind)] = phase_json(p);
  Json out = {{"schema", "specstep.result/1"},
              {"executor", r.executor},
              {"config_hash", config_hash(canonical)},
              {"config", canonical},
              {"environment", environment(r.devices)},
              {"phases", std::move(phases)},
              {"metrics", metrics_json(r)},
              {"provenance", r.provenance},
              {"notes", r.notes}};
  if (r.acceptance)
    out["acceptance"] = {{"length", r.acceptance->length()},
                         {"rate", r.acceptance->rate()},
                         {"survival", r.acceptance->survival()},
                         {"distribution", r.acceptance->distribution()},
                         {"one_draw_per_batch", r.acceptance->one_draw()}};
  for (const CycleTerm& term : r.cycle_terms)
    out["cycle_terms"].push_back({{"name", term.name}, {"seconds", term.seconds}});
  if (r.memory) out["memory"] = memory_json(*r.memory);
  if (r.generation)
    out["generation"] = {{"digest", r.generation->digest},
                         {"plain_digest", r.generation->plain_digest},
                         {"first_difference", r.generation->first_difference}};
  return out;
}

std::string csv_rows(const RunResult& r, const std::string& prefix, const std::map<std::string, double>* reported) {
  std::string out;
  for (const MetricRow& row : metric_rows()) {
    const auto found = r.metrics.find(std::string(row.name));
    if (found == r.metrics.end()) continue;
    const Metric& m = found->second;
    std::string last;
    if (reported) last = reported->contains(found->first) ? formatted(",{}", reported->at(found->first)) : ",";
    out += formatted("{}{},{},{},{},{},{}{}\n", prefix, row.name, m.value, row.unit,
                     row.better == Better::higher ? "higher" : "lower", m.low, m.high, last);
  }
  return out;
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

std::string to_csv(const RunResult& r) { return "metric,value,unit,better,low,high\n" + csv_rows(r, "", nullptr); }

}  // namespace specstep
