// For tests: studies of configs/ and what they found, by name.
#pragma once

#include <stdexcept>

#include "sim/study.h"
#include "sim/test_configs.h"

namespace specstep {

inline ReadStudy read_study_text(const std::string& text) {
  static const ConfigLibrary library(test_configs);
  ReadOptions options;
  options.library = &library;
  return read_study(yaml::parse(text, "study.yaml"), options);
}

inline ReadStudy shipped_study(const std::string& name) {
  static const ConfigLibrary library(test_configs);
  ReadOptions options;
  options.library = &library;
  return read_study(load_with_base(test_configs / "runs" / (name + ".yaml")), options);
}

inline const StudyRow& row_of(const StudyResult& study, const std::string& name) {
  for (std::size_t i = 0; i < study.rows.size(); ++i)
    if (study.config.runs[i].name == name) return study.rows[i];
  throw std::out_of_range(name);
}

/// The prediction of a row for a metric of its run.
inline double predicted(const StudyResult& study, const std::string& row, const std::string& metric) {
  return row_of(study, row).outcome.result.value().metrics.at(metric).value;
}

/// The reported figure of a row with what is predicted.
inline const StudyFigure& figure(const StudyResult& study, const std::string& row) {
  return row_of(study, row).outcome.figures.at(0);
}

inline const HypothesisOutcome& cause(const StudyResult& study, const std::string& row, const std::string& name) {
  for (std::size_t i = 0; i < study.rows.size(); ++i)
    for (std::size_t h = 0; h < study.rows[i].hypotheses.size(); ++h)
      if (study.config.runs[i].name == row && study.config.runs[i].hypotheses[h].name == name)
        return study.rows[i].hypotheses[h];
  throw std::out_of_range(name);
}

}  // namespace specstep
