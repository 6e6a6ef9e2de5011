// Runs a study row by row, hypothesis by hypothesis.
#include "sim/study.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "model/base/formatted.h"
#include "sim/engine/benchmark.h"

namespace specstep {

Agreement agreement_of(const Metric& predicted, double reported, double tolerance) {
  if (predicted.low < predicted.high && predicted.low <= reported && reported <= predicted.high)
    return Agreement::spans;
  return std::abs(predicted.value / reported - 1) <= tolerance ? Agreement::near : Agreement::misses;
}

namespace {

/// Widens low and high of each metric by those of another run of the same kind.
void widen(RunResult& result, const RunResult& other) {
  for (auto& [name, metric] : result.metrics) {
    const auto found = other.metrics.find(name);
    if (found == other.metrics.end()) continue;
    metric.low = std::min(metric.low, found->second.low);
    metric.high = std::max(metric.high, found->second.high);
  }
}

void name_interval(RunResult& result, std::size_t priced, std::size_t refused) {
  std::string how = formatted("least and largest over {} combinations of the study's inputs", priced);
  if (refused > 0) how += formatted("; {} more would not start", refused);
  for (auto& [name, metric] : result.metrics) metric.interval = how;
}

/// The result of a run, or the message of an engine that would not start.
std::optional<RunResult> priced(const RunConfig& run, std::string& error) {
  try {
    return run_benchmark(run, *make_executor(run));
  } catch (const InputError&) {
    throw;
  } catch (const Unsupported&) {
    throw;
  } catch (const Error& e) {
    error = e.what();
    return std::nullopt;
  }
}

StudyOutcome outcome_of(const StudyVariant& variant, const StudyRun& row) {
  StudyOutcome out;
  out.command = variant.command;
  out.result = priced(variant.run, out.error);
  if (out.result && !variant.span.empty()) {
    std::size_t refused = 0;
    for (const RunConfig& run : variant.span) {
      std::string error;
      if (const auto other = priced(run, error))
        widen(*out.result, *other);
      else
        ++refused;
    }
    name_interval(*out.result, variant.span.size() + 1 - refused, refused);
  }
  for (const auto& [metric, reported] : row.reported) {
    StudyFigure figure{metric, reported, std::nullopt, Agreement::none};
    if (out.result && out.result->metrics.contains(metric)) {
      figure.predicted = out.result->metrics.at(metric);
      figure.agreement = agreement_of(*figure.predicted, reported, row.tolerance);
    }
    out.figures.push_back(std::move(figure));
  }
  return out;
}

StudyRow row_of(const ReadStudy& study, std::size_t i) {
  const StudyRun& row = study.config.runs[i];
  StudyRow out{outcome_of(study.rows[i].variant, row), {}};
  for (std::size_t h = 0; h < row.hypotheses.size(); ++h) {
    const ReadHypothesis& read = study.rows[i].hypotheses[h];
    HypothesisOutcome one{outcome_of(read.variant, row), {}};
    for (std::size_t k = 0; k < read.also.size(); ++k)
      for (const StudyRun& other : study.config.runs)
        if (other.name == row.hypotheses[h].also[k]) one.also.push_back(outcome_of(read.also[k], other));
    out.hypotheses.push_back(std::move(one));
  }
  return out;
}

/// The number behind a dotted key of a run; InputError when it is none.
double number_at(const RunConfig& run, const std::string& key, const std::string& at) {
  nlohmann::ordered_json value = dump_config(run);
  for (std::size_t from = 0; from <= key.size() && value.is_object();) {
    const std::size_t dot = std::min(key.find('.', from), key.size());
    value = value.value(key.substr(from, dot - from), nlohmann::ordered_json());
    from = dot + 1;
  }
  if (!value.is_number()) throw InputError(Issue{{}, at, "'" + key + "' is no number", "a key of the runs that is"});
  return value.get<double>();
}

/// Of the least-squares line through the points.
std::optional<double> slope_through(const std::vector<std::pair<double, double>>& points) {
  double x = 0, y = 0, xx = 0, xy = 0;
  const auto n = static_cast<double>(points.size());
  for (const auto& [px, py] : points) {
    x += px / n;
    y += py / n;
  }
  for (const auto& [px, py] : points) {
    xx += (px - x) * (px - x);
    xy += (px - x) * (py - y);
  }
  return xx > 0 ? std::optional(xy / xx) : std::nullopt;
}

SlopeOutcome slope_of(const ReadStudy& study, std::size_t s, const std::vector<StudyRow>& rows) {
  const StudySlope& slope = study.config.slopes[s];
  std::vector<std::pair<double, double>> predicted, reported;
  for (const std::string& name : slope.rows)
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const StudyRun& row = study.config.runs[i];
      if (row.name != name) continue;
      const double x = number_at(study.rows[i].variant.run, slope.over, formatted("slopes[{}].over", s));
      const auto& result = rows[i].outcome.result;
      if (result && result->metrics.contains(slope.metric))
        predicted.emplace_back(x, result->metrics.at(slope.metric).value);
      if (row.reported.contains(slope.metric)) reported.emplace_back(x, row.reported.at(slope.metric));
    }
  SlopeOutcome out;
  if (predicted.size() == slope.rows.size()) out.predicted = slope_through(predicted);
  if (reported.size() == slope.rows.size()) out.of_reported = slope_through(reported);
  return out;
}

}  // namespace

StudyResult run_study(const ReadStudy& study) {
  StudyResult out{study.config, {}, {}};
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    try {
      out.rows.push_back(row_of(study, i));
    } catch (const InputError& e) {  // its keys are those of the run
      Issues issues = e.issues();
      for (Issue& issue : issues) issue.key = formatted("runs[{}].run.{}", i, issue.key);
      throw InputError(issues);
    }
  }
  for (std::size_t s = 0; s < study.config.slopes.size(); ++s) out.slopes.push_back(slope_of(study, s, out.rows));
  return out;
}

}  // namespace specstep
