// Files that list runs with reported figures beside them, and the causes that could explain these.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/config.h"

namespace specstep {

/// A key of a run whose value is known only within limits. The interval of a prediction spans these values and that of
/// the run itself.
struct StudyInput {
  std::string key;
  std::vector<std::string> values;  // YAML, as behind --set key=
  std::string source;
};

/// A cause that could explain a row's figures: keys set on the row's run, or a run of its own.
struct StudyHypothesis {
  std::string name;
  std::string claim;
  std::map<std::string, std::string> set;  // key: value, as --set takes them
  std::string run;                         // name or path of a run instead of the row's
  std::vector<StudyInput> inputs;          // beside those of the row; one with the same key stands in its place
  std::string source;
  std::string separates;          // the measurement that would tell this cause from the others
  std::vector<std::string> also;  // rows whose figures have to survive the same keys
};

/// Reported figures beside their run.
struct StudyRun {
  std::string name;
  RunConfig run;
  std::map<std::string, std::string> set;
  std::map<std::string, double> reported;  // by metric name
  std::string reported_error;              // how the engine's message began, where it did not start
  std::string source;
  double tolerance = 0.1;  // share of the reported figure by which a prediction may miss it and still agree
  std::string assumes;
  std::string unexplained;  // what is known of a figure that nothing here explains
  std::string against;      // row with which the ratio of this one is compared
  std::vector<StudyInput> inputs;
  std::vector<StudyHypothesis> hypotheses;
};

/// Reported figures that cannot all be true, or not of the same thing.
struct Contradiction {
  std::string figures;
  std::string why;
  std::string settles;  // what would show which of them is wrong
};

/// A reported least-squares slope of a metric over a key of the runs, beside the same slope of the predictions.
struct StudySlope {
  std::string name;
  std::string over;    // key of a run
  std::string metric;  // its reported figures and its predictions stand in the rows
  std::vector<std::string> rows;
  double reported = 0;
  double plus_minus = 0;
};

struct StudyConfig {
  std::string name;
  std::string source;
  std::vector<StudyRun> runs;
  std::vector<StudySlope> slopes;
  std::vector<Contradiction> contradictions;
};

void describe(Fields& f, StudyInput& i);
void check(const StudyInput& i, Checker& c);
void describe(Fields& f, StudyHypothesis& h);
void check(const StudyHypothesis& h, Checker& c);
void describe(Fields& f, StudyRun& s);
void check(const StudyRun& s, Checker& c);
void describe(Fields& f, Contradiction& s);
void describe(Fields& f, StudySlope& s);
void describe(Fields& f, StudyConfig& s);
void check(const StudyConfig& s, Checker& c);

/// True when the tree is a study: a list of runs.
bool is_study(const yaml::Node& root);

/// A run of a study with everything set that its row, hypothesis or input says, and how a user starts it.
struct StudyVariant {
  std::string command;          // empty where the run has no name of its own (an inline map)
  RunConfig run;                // as it stands
  std::vector<RunConfig> span;  // with the inputs' values, every combination; empty without inputs
};
struct ReadHypothesis {
  StudyVariant variant;
  std::vector<StudyVariant> also;  // in the order of StudyHypothesis::also
};
struct ReadRow {
  StudyVariant variant;
  std::vector<ReadHypothesis> hypotheses;
};
struct ReadStudy {
  StudyConfig config;
  std::vector<ReadRow> rows;  // one for each of config.runs
};

/// Reads a study and every variant of its runs, all through the same checks as `--set`. Throws InputError with places;
/// `issues` are those of the tree. `sources`, when given, tells where each key stood.
ReadStudy read_study(const yaml::Node& root, const ReadOptions& options, Sources* sources = nullptr,
                     Issues issues = {});

}  // namespace specstep
