// The answers as JSON and CSV.
#include <nlohmann/json.hpp>

#include "model/base/formatted.h"
#include "model/base/units.h"
#include "sim/solve/solve.h"

namespace specstep {

using Json = nlohmann::ordered_json;

namespace {

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json verdict_json(const SolveVerdict& v) {
  Json out = {{"speculate", nullptr},
              {"plain_tok_s", v.plain_tok_s},
              {"step_ms", v.step_seconds / ms},
              {"cycle_ms", v.cycle_seconds / ms},
              {"verify_ms", v.verify_seconds / ms},
              {"break_even_accept_length", v.break_even_length},
              {"break_even_rate", or_null(v.break_even_rate)}};
  if (!v.accept_length) return out;
  out["speculate"] = v.tok_s > v.plain_tok_s;
  out["accept_length"] = *v.accept_length;
  out["tok_s"] = v.tok_s;
  out["speedup"] = v.tok_s / v.plain_tok_s;
  out["terms"] = Json::array();
  for (const CycleTerm& term : v.terms) out["terms"].push_back({{"name", term.name}, {"ms", term.seconds / ms}});
  if (v.decides < v.terms.size())
    out["decides"] = {{"name", v.terms[v.decides].name}, {"ms", v.terms[v.decides].seconds / ms}, {"alone", v.alone}};
  return out;
}

Json allreduce_json(const SolveAllreduce& a) {
  Json ranges = Json::array();
  for (const auto& [from, to] : a.all_pays) ranges.push_back({{"from_us", from}, {"to_us", to}});
  return {{"decode_us", a.decode_us},   {"verify_us", a.verify_us},
          {"in_decode", a.in_decode},   {"in_verify", a.in_verify},
          {"largest_us", a.largest_us}, {"cycle_pays_up_to_us", or_null(a.cycle_pays_up_to_us)},
          {"all_pays", ranges}};
}

Json break_even_json(const BreakEvenRow& r) {
  if (!r.error.empty()) return {{"batch", r.batch}, {"context", r.context}, {"error", r.error}};
  return {{"batch", r.batch},
          {"context", r.context},
          {"fits", r.fits},
          {"admitted", r.admitted},
          {"accept_length", r.length},
          {"rate", or_null(r.rate)},
          {"step_ms", r.step_seconds / ms},
          {"cycle_ms", r.cycle_seconds / ms},
          {"verify_ms", r.verify_seconds / ms}};
}

Json lengths_json(const DraftLengthRow& r) {
  if (!r.error.empty()) return {{"batch", r.batch}, {"error", r.error}};
  Json by = Json::array();
  for (const LengthChoice& c : r.lengths)
    by.push_back({{"draft_length", c.draft_length},
                  {"accept_length", c.accept_length},
                  {"break_even_accept_length", c.break_even_length},
                  {"tok_s", c.tok_s}});
  return {{"batch", r.batch},
          {"plain_tok_s", r.plain_tok_s},
          {"best_draft_length", r.best},
          {"tok_s", r.tok_s},
          {"by_length", std::move(by)}};
}

Json sensitivity_json(const SensitivityRow& r) {
  Json out = {{"input", r.input}, {"value", r.value}, {"plain", r.plain}, {"speculative", or_null(r.speculative)}};
  if (!r.step.empty()) out["step"] = r.step;
  return out;
}

Json backend_json(const BackendAnswer& b) {
  if (!b.refusal.empty()) return {{"backend", b.backend}, {"refusal", b.refusal}};
  return {{"backend", b.backend},
          {"allreduce_decode_us", b.decode_us},
          {"allreduce_verify_us", b.verify_us},
          {"step_ms", b.step_seconds / ms},
          {"verify_ms", b.verify_seconds / ms},
          {"plain_tok_s", b.plain_tok_s},
          {"tok_s", or_null(b.tok_s)},
          {"break_even_accept_length", or_null(b.break_even_length)}};
}

template <class Row, class F>
Json list_of(const std::vector<Row>& rows, F&& one) {
  Json out = Json::array();
  for (const Row& row : rows) out.push_back(one(row));
  return out;
}

/// One line of the table; what a row has nothing of stays empty.
class Table {
 public:
  void add(const std::string& table, std::int64_t batch, const std::string& context, const std::string& draft_length,
           const std::string& name, const std::string& metric, double value) {
    text_ += formatted("{},{},{},{},{},{},{}\n", table, batch, context, draft_length, name, metric, value);
  }
  std::string text_ = "table,batch,context,draft_length,name,metric,value\n";
};

}  // namespace

Json to_json(const SolveResult& r) {
  const Json canonical = dump_config(r.config);
  const SpeculationSpec& s = r.config.speculation;
  Json at = {{"batch", r.config.workload.batch}, {"context", r.context}, {"draft_length", s.depth()}};
  at["verify_tokens"] = s.verify_tokens();
  at["free_draft"] = r.free_draft;
  at["kv_tokens"] = r.kv_tokens;
  return {{"schema", "specstep.solve/1"},
          {"executor", "cost"},
          {"config_hash", config_hash(canonical)},
          {"config", canonical},
          {"at", std::move(at)},
          {"verdict", verdict_json(r.verdict)},
          {"allreduce", allreduce_json(r.allreduce)},
          {"break_even", list_of(r.break_even, break_even_json)},
          {"draft_length", list_of(r.draft_lengths, lengths_json)},
          {"sensitivity", list_of(r.sensitivity, sensitivity_json)},
          {"inputs_without_effect", r.inert},
          {"backends", list_of(r.backends, backend_json)},
          {"notes", r.notes}};
}

std::string to_csv(const SolveResult& r) {
  Table out;
  const std::string drafts = std::to_string(r.config.speculation.depth());
  const std::string here = std::to_string(r.context);
  const std::int64_t batch = r.config.workload.batch;
  for (const BreakEvenRow& row : r.break_even) {
    if (!row.error.empty()) continue;
    const std::string context = std::to_string(row.context);
    out.add("break_even", row.batch, context, drafts, "", "accept_length", row.length);
    if (row.rate) out.add("break_even", row.batch, context, drafts, "", "rate", *row.rate);
    out.add("break_even", row.batch, context, drafts, "", "step_ms", row.step_seconds / ms);
    out.add("break_even", row.batch, context, drafts, "", "cycle_ms", row.cycle_seconds / ms);
  }
  for (const DraftLengthRow& row : r.draft_lengths) {
    if (!row.error.empty()) continue;
    out.add("draft_length", row.batch, here, "0", "", "tok_s", row.plain_tok_s);
    for (const LengthChoice& c : row.lengths)
      out.add("draft_length", row.batch, here, std::to_string(c.draft_length), "", "tok_s", c.tok_s);
  }
  for (const SensitivityRow& row : r.sensitivity) {
    out.add("sensitivity", batch, here, "0", row.input, "elasticity", row.plain);
    if (row.speculative) out.add("sensitivity", batch, here, drafts, row.input, "elasticity", *row.speculative);
  }
  for (const BackendAnswer& row : r.backends) {
    if (!row.refusal.empty()) continue;
    out.add("backend", batch, here, "0", row.backend, "tok_s", row.plain_tok_s);
    if (row.tok_s) out.add("backend", batch, here, drafts, row.backend, "tok_s", *row.tok_s);
    out.add("backend", batch, here, drafts, row.backend, "verify_ms", row.verify_seconds / ms);
  }
  return out.text_;
}

}  // namespace specstep
