// What a study found, row by row.
#pragma once

#include <cmath>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/report/result.h"
#include "sim/study_config.h"

namespace specstep {

/// How a prediction stands to a reported figure: its interval holds the figure; it is within the row's tolerance;
/// neither; or the run has no such metric.
enum class Agreement { spans, near, misses, none };
template <>
struct EnumNames<Agreement> {
  static std::vector<std::string> names() { return {"spans", "near", "misses", "none"}; }
};

struct StudyFigure {
  std::string metric;
  double reported = 0;
  std::optional<Metric> predicted;
  Agreement agreement = Agreement::none;
  double error() const { return predicted ? predicted->value / reported - 1 : 0; }
};

/// One variant carried out. Metrics of `result` have as low and high the least and largest value over the inputs.
struct StudyOutcome {
  std::string command;
  std::optional<RunResult> result;  // nothing when the engine would not start
  std::string error;                // its message then
  std::vector<StudyFigure> figures;
};

struct HypothesisOutcome {
  StudyOutcome outcome;
  std::vector<StudyOutcome> also;  // the rows of StudyHypothesis::also under the same keys
};

struct StudyRow {
  StudyOutcome outcome;
  std::vector<HypothesisOutcome> hypotheses;
};

struct SlopeOutcome {
  std::optional<double> of_reported;  // through the rows' reported figures, where all have one
  std::optional<double> predicted;
  /// Whether the prediction lies in the reported interval; nothing where there is none of the two.
  std::optional<bool> agrees(const StudySlope& slope) const {
    if (!predicted || slope.plus_minus <= 0) return std::nullopt;
    return std::abs(*predicted - slope.reported) <= slope.plus_minus;
  }
};

struct StudyResult {
  StudyConfig config;
  std::vector<StudyRow> rows;        // one for each of config.runs
  std::vector<SlopeOutcome> slopes;  // one for each of config.slopes
};

/// How a prediction stands to a reported figure.
Agreement agreement_of(const Metric& predicted, double reported, double tolerance);

/// "specstep.study/1" (docs/results.md).
nlohmann::ordered_json to_json(const StudyResult& study);
/// One row a metric of each run, the run's name in front; hypotheses are named "RUN / HYPOTHESIS".
std::string to_csv(const StudyResult& study);
/// The timelines of the study's runs, one behind the other. Hypotheses are none.
std::string to_timeline(const StudyResult& study);
/// Reported beside predicted, the causes that would explain each figure, and the figures that contradict each other.
std::string to_text(const StudyResult& study);

}  // namespace specstep
