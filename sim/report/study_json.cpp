// Studies as JSON and CSV.

#include <nlohmann/json.hpp>

#include "model/base/formatted.h"
#include "sim/report/study_result.h"

namespace specstep {

using Json = nlohmann::ordered_json;

namespace {

Json figures_json(const std::vector<StudyFigure>& figures) {
  Json out = Json::array();
  for (const StudyFigure& f : figures) {
    Json one = {{"metric", f.metric}, {"reported", f.reported}};
    if (f.predicted) {
      one["predicted"] = f.predicted->value;
      one["low"] = f.predicted->low;
      one["high"] = f.predicted->high;
      one["interval"] = f.predicted->interval;
      one["error"] = f.error();
    }
    one["agreement"] = name_of(f.agreement);
    out.push_back(std::move(one));
  }
  return out;
}

void put_text(Json& out, const char* key, const std::string& text) {
  if (!text.empty()) out[key] = text;
}

void put_outcome(Json& out, const StudyOutcome& outcome) {
  put_text(out, "command", outcome.command);
  out["figures"] = figures_json(outcome.figures);
  put_text(out, "error", outcome.error);
}

Json hypothesis_json(const StudyHypothesis& h, const HypothesisOutcome& found) {
  Json out = {{"name", h.name}, {"claim", h.claim}, {"set", h.set}};
  put_text(out, "run", h.run);
  put_text(out, "source", h.source);
  put_text(out, "separates", h.separates);
  put_outcome(out, found.outcome);
  out["also"] = Json::array();
  for (std::size_t i = 0; i < h.also.size(); ++i) {
    Json one = {{"row", h.also[i]}};
    put_outcome(one, found.also[i]);
    out["also"].push_back(std::move(one));
  }
  return out;
}

Json inputs_json(const std::vector<StudyInput>& inputs) {
  Json out = Json::array();
  for (const StudyInput& i : inputs) out.push_back({{"key", i.key}, {"values", i.values}, {"source", i.source}});
  return out;
}

Json row_json(const StudyRun& spec, const StudyRow& row) {
  Json out = {{"name", spec.name}, {"reported", spec.reported}, {"tolerance", spec.tolerance}};
  put_text(out, "reported_error", spec.reported_error);
  put_text(out, "source", spec.source);
  put_text(out, "assumes", spec.assumes);
  put_text(out, "unexplained", spec.unexplained);
  put_text(out, "against", spec.against);
  out["inputs"] = inputs_json(spec.inputs);
  put_outcome(out, row.outcome);
  out["hypotheses"] = Json::array();
  for (std::size_t h = 0; h < row.hypotheses.size(); ++h)
    out["hypotheses"].push_back(hypothesis_json(spec.hypotheses[h], row.hypotheses[h]));
  if (row.outcome.result) out["result"] = to_json(*row.outcome.result);
  return out;
}

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

Json to_json(const StudyResult& study) {
  Json runs = Json::array();
  for (std::size_t i = 0; i < study.rows.size(); ++i) runs.push_back(row_json(study.config.runs[i], study.rows[i]));
  Json slopes = Json::array();
  for (std::size_t i = 0; i < study.slopes.size(); ++i) {
    const StudySlope& s = study.config.slopes[i];
    const std::optional<bool> agrees = study.slopes[i].agrees(s);
    slopes.push_back({{"name", s.name},
                      {"over", s.over},
                      {"metric", s.metric},
                      {"rows", s.rows},
                      {"reported", s.reported},
                      {"plus_minus", s.plus_minus},
                      {"of_reported_figures", number_or_null(study.slopes[i].of_reported)},
                      {"predicted", number_or_null(study.slopes[i].predicted)},
                      {"agrees", agrees ? Json(*agrees) : Json(nullptr)}});
  }
  Json contradictions = Json::array();
  for (const Contradiction& c : study.config.contradictions)
    contradictions.push_back({{"figures", c.figures}, {"why", c.why}, {"settles", c.settles}});
  return {{"schema", "specstep.study/1"}, {"name", study.config.name},   {"source", study.config.source},
          {"runs", std::move(runs)},      {"slopes", std::move(slopes)}, {"contradictions", std::move(contradictions)}};
}

std::string to_csv(const StudyResult& study) {
  std::string out = "run,metric,value,unit,better,low,high,reported\n";
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    const StudyRun& spec = study.config.runs[i];
    const StudyRow& row = study.rows[i];
    if (row.outcome.result) out += csv_rows(*row.outcome.result, csv_field(spec.name) + ",", &spec.reported);
    for (std::size_t h = 0; h < row.hypotheses.size(); ++h)
      if (const auto& result = row.hypotheses[h].outcome.result)
        out += csv_rows(*result, csv_field(spec.name + " / " + spec.hypotheses[h].name) + ",", &spec.reported);
  }
  return out;
}

}  // namespace specstep
