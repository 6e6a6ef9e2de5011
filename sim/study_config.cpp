// Reading of studies, and the faults that only the rows together show.
#include "sim/study_config.h"

#include <algorithm>
#include <set>

#include "model/base/formatted.h"
#include "sim/report/metrics.h"

namespace specstep {

bool is_study(const yaml::Node& root) { return root.kind == yaml::Node::Kind::map && root.find("runs") != nullptr; }

void describe(Fields& f, StudyInput& i) {
  f.required("key", i.key, "key of the run, as behind --set");
  f.required("values", i.values, "values that it may have beside that of the run, as YAML");
  f.optional("source", i.source, "where these values come from");
}

void check(const StudyInput& i, Checker& c) {
  if (i.values.empty()) c.fail("values", "is empty", "a value or more");
}

void describe(Fields& f, StudyHypothesis& h) {
  f.required("name", h.name, "name of the cause");
  f.required("claim", h.claim, "what would be the matter");
  f.optional("set", h.set, "keys of the row's run that the cause changes, as behind --set");
  f.optional("run", h.run, "a run of its own instead: the name of an installed one, or a path");
  f.optional("inputs", h.inputs, "uncertain keys, beside those of the row");
  f.optional("source", h.source, "where its numbers come from");
  f.optional("separates", h.separates, "the measurement that would tell it from the others");
  f.optional("also", h.also, "rows whose figures have to survive the same keys");
}

void check(const StudyHypothesis& h, Checker& c) {
  if (h.set.empty() == h.run.empty())
    c.fail("set", h.set.empty() ? "missing" : "is given beside run", "keys to set, or a run, one of them");
  if (!h.also.empty() && h.set.empty()) c.fail("also", "needs keys that can be set there", "a hypothesis with set");
}

void describe(Fields& f, StudyRun& s) {
  f.required("name", s.name, "name of the row");
  f.part("run", s.run, "runs", "the run");
  f.optional("set", s.set, "keys of the run, as behind --set");
  f.optional("reported", s.reported, "figures that others measured, by metric name", {.min = 0, .above_min = true});
  f.optional("reported_error", s.reported_error, "how the engine's message began, where it did not start");
  f.optional("source", s.source, "where these figures come from, if not from the study's source");
  f.optional("tolerance", s.tolerance, "share by which a prediction may miss a figure and still agree with it",
             {.min = 0, .max = 1});
  f.optional("assumes", s.assumes, "what the prediction rests on that the reports do not say");
  f.optional("unexplained", s.unexplained, "set when nothing here explains the figure: what is known of it");
  f.optional("against", s.against, "row with which the ratio of this one is compared, reported and predicted");
  f.optional("inputs", s.inputs, "uncertain keys: the interval of the prediction spans their values");
  f.optional("hypotheses", s.hypotheses, "causes that could explain the figures");
}

void check(const StudyRun& s, Checker& c) {
  for (const auto& [metric, value] : s.reported)
    if (!find_metric(metric))
      c.fail(formatted("reported.{}", metric), "unknown metric", "a name of 'specstep list --metrics'");
  if (!s.reported.empty() && !s.reported_error.empty())
    c.fail("reported_error", "is given beside figures", "one of them: an engine that did not start has no figures");
  std::size_t points = 1;
  for (const StudyInput& i : s.inputs) points *= i.values.size() + 1;
  if (points > 64) c.fail("inputs", formatted("give {} combinations", points), "at most 64");
}

void describe(Fields& f, Contradiction& s) {
  f.required("figures", s.figures, "the figures that do not go together");
  f.required("why", s.why, "why they cannot all be true");
  f.optional("settles", s.settles, "what would show which of them is wrong");
}

void describe(Fields& f, StudySlope& s) {
  f.required("name", s.name, "what the slope is of");
  f.required("over", s.over, "a key of the runs that is a number");
  f.required("metric", s.metric, "a metric of the runs");
  f.required("rows", s.rows, "the rows it goes through");
  f.required("reported", s.reported, "the reported slope, in the unit of the metric");
  f.optional("plus_minus", s.plus_minus, "its reported error", {.min = 0});
}

void describe(Fields& f, StudyConfig& s) {
  f.required("name", s.name, "name of the study");
  f.optional("source", s.source, "where the reported figures come from");
  f.required("runs", s.runs, "the runs, with reported figures beside them");
  f.optional("slopes", s.slopes, "reported slopes over a key of the runs");
  f.optional("contradictions", s.contradictions, "reported figures that cannot all be true");
}

namespace {

void check_slope(const StudySlope& slope, const std::set<std::string>& names, const std::string& key, Checker& c) {
  if (!find_metric(slope.metric)) c.fail(key + ".metric", "unknown metric", "a name of 'specstep list --metrics'");
  for (std::size_t i = 0; i < slope.rows.size(); ++i)
    if (!names.contains(slope.rows[i])) c.fail(formatted("{}.rows[{}]", key, i), "is no row", "the name of a row");
  if (slope.rows.size() < 3) c.fail(key + ".rows", formatted("has {}", slope.rows.size()), "three rows or more");
}

}  // namespace

void check(const StudyConfig& s, Checker& c) {
  if (s.runs.empty()) c.fail("runs", "is empty", "at least one run");
  std::set<std::string> names;
  for (std::size_t i = 0; i < s.runs.size(); ++i)
    if (!names.insert(s.runs[i].name).second)
      c.fail(formatted("runs[{}].name", i), "is given twice", "a name of its own for each run");
  for (std::size_t i = 0; i < s.runs.size(); ++i) {
    const StudyRun& row = s.runs[i];
    if (!row.against.empty() && (!names.contains(row.against) || row.against == row.name))
      c.fail(formatted("runs[{}].against", i), "is no other row", "the name of another row");
    for (std::size_t h = 0; h < row.hypotheses.size(); ++h)
      for (std::size_t k = 0; k < row.hypotheses[h].also.size(); ++k)
        if (!names.contains(row.hypotheses[h].also[k]))
          c.fail(formatted("runs[{}].hypotheses[{}].also[{}]", i, h, k), "is no row", "the name of a row");
  }
  for (std::size_t i = 0; i < s.slopes.size(); ++i) check_slope(s.slopes[i], names, formatted("slopes[{}]", i), c);
}

}  // namespace specstep
