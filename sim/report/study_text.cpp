// Studies as text for a terminal: reported beside predicted, then what would explain each figure.

#include <algorithm>
#include <cmath>

#include "model/base/formatted.h"
#include "sim/report/metrics.h"
#include "sim/report/study_result.h"

namespace specstep {

namespace {

constexpr std::size_t text_width = 110;

/// `text` in lines of at most text_width, the first behind `front`, the rest indented as deep as `front` is long.
std::string wrapped(const std::string& front, const std::string& text) {
  std::string out, line = front;
  const std::string pad(front.size(), ' ');
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find(' ', from), text.size());
    const std::string word = text.substr(from, end - from);
    if (line.size() + word.size() + 1 > text_width && line.size() > pad.size()) {
      out += line + "\n";
      line = pad;
    }
    if (line.size() > pad.size()) line += ' ';
    line += word;
    from = end + 1;
  }
  return out + line + "\n";
}

std::string verdict(const StudyFigure& f, double tolerance) {
  switch (f.agreement) {
    case Agreement::spans:
      return "its interval holds the report";
    case Agreement::near:
      return formatted("within {:.0f} %", 100 * tolerance);
    case Agreement::misses:
      return "misses";
    case Agreement::none:
      return "";
  }
  return "";
}

std::string interval(const StudyFigure& f) {
  if (!f.predicted || !(f.predicted->low < f.predicted->high)) return "-";
  return figure_text(f.predicted->low) + " to " + figure_text(f.predicted->high);
}

/// Widths of the columns that hold names.
struct Columns {
  std::size_t run = 22, metric = 16;
};

Columns columns_of(const StudyConfig& study) {
  Columns out;
  for (const StudyRun& run : study.runs) {
    out.run = std::max(out.run, run.name.size());
    for (const auto& [metric, value] : run.reported) out.metric = std::max(out.metric, metric.size());
  }
  return out;
}

std::string line(const Columns& columns, const std::string& name, const StudyFigure& f, double tolerance) {
  const std::string error = f.predicted ? formatted("{:+.1f} %", 100 * f.error()) : "-";
  const std::string shown = f.predicted ? figure_text(f.predicted->value) : "-";
  const std::string says = f.predicted ? verdict(f, tolerance) : "this run has no such metric";
  return formatted("  {:<{}} {:<{}} {:>9} {:>9}  {:<16} {:>9}  {}\n", name, columns.run, f.metric, columns.metric,
                   figure_text(f.reported), shown, interval(f), error, says);
}

/// A row of an engine that was reported not to start, or that does not start here.
std::string start_line(const Columns& columns, const StudyRun& spec, const StudyOutcome& outcome) {
  const bool reported = !spec.reported_error.empty();
  const bool agrees = reported && !outcome.error.empty() && outcome.error.starts_with(spec.reported_error);
  return formatted("  {:<{}} {:<{}} {:>9} {:>9}  {:<16} {:>9}  {}\n", spec.name, columns.run, "start-up",
                   columns.metric, reported ? "refused" : "-", outcome.error.empty() ? "starts" : "refused", "-", "-",
                   agrees ? "agrees" : "misses");
}

std::string table(const StudyResult& study) {
  const Columns columns = columns_of(study.config);
  std::string out = formatted("  {:<{}} {:<{}} {:>9} {:>9}  {:<16} {:>9}\n", "run", columns.run, "metric",
                              columns.metric, "reported", "predicted", "interval", "error");
  for (std::size_t i = 0; i < study.rows.size(); ++i) {
    const StudyRun& spec = study.config.runs[i];
    const StudyOutcome& outcome = study.rows[i].outcome;
    if (!spec.reported_error.empty() || !outcome.error.empty()) {
      out += start_line(columns, spec, outcome);
      continue;
    }
    for (const StudyFigure& f : outcome.figures) out += line(columns, spec.name, f, spec.tolerance);
    if (outcome.figures.empty())
      out += formatted("  {:<{}} {:<{}} {:>9} {:>9}\n", spec.name, columns.run, "benchmark.tok_s", columns.metric, "-",
                       figure_text(outcome.result->metrics.at("benchmark.tok_s").value));
  }
  return out;
}

/// What the same keys do to another row.
std::string also_text(const StudyRun& spec, const StudyOutcome& outcome) {
  if (!outcome.error.empty()) return formatted("{} would not start: {}", spec.name, outcome.error);
  std::string out;
  for (const StudyFigure& f : outcome.figures) {
    if (!f.predicted) continue;
    out += formatted("{}{} would be {} of {} reported{}", out.empty() ? "" : "; ", spec.name,
                     figure_text(f.predicted->value), figure_text(f.reported),
                     f.agreement == Agreement::misses ? ", which speaks against it" : "");
  }
  return out;
}

const StudyRun* run_of(const StudyConfig& study, const std::string& name) {
  for (const StudyRun& run : study.runs)
    if (run.name == name) return &run;
  return nullptr;
}

std::string hypothesis_text(const StudyConfig& study, const StudyRun& spec, const StudyHypothesis& h,
                            const HypothesisOutcome& found) {
  std::string out;
  if (!found.outcome.error.empty()) out += wrapped(formatted("  ? {}: would not start: ", h.name), found.outcome.error);
  for (const StudyFigure& f : found.outcome.figures)
    out += formatted("  ? {:<42} {:>9} {:>9}  {:<16} {:>9}  {}\n", h.name, figure_text(f.reported),
                     f.predicted ? figure_text(f.predicted->value) : "-", interval(f),
                     f.predicted ? formatted("{:+.1f} %", 100 * f.error()) : "-", verdict(f, spec.tolerance));
  out += wrapped("      ", h.claim);
  for (std::size_t i = 0; i < h.also.size(); ++i)
    if (const StudyRun* other = run_of(study, h.also[i]))
      out += wrapped("      but then ", also_text(*other, found.also[i]));
  if (!h.separates.empty()) out += wrapped("      test: ", h.separates);
  if (!found.outcome.command.empty()) out += "      " + found.outcome.command + "\n";
  return out;
}

/// The ratio of a row's figures to those of the row that it is held against.
std::string ratio_text(const StudyResult& study, std::size_t i) {
  const StudyRun& spec = study.config.runs[i];
  std::string out;
  for (std::size_t k = 0; k < study.rows.size(); ++k) {
    if (study.config.runs[k].name != spec.against) continue;
    for (const StudyFigure& here : study.rows[i].outcome.figures)
      for (const StudyFigure& there : study.rows[k].outcome.figures)
        if (here.metric == there.metric && here.predicted && there.predicted)
          out += formatted("  against {}: {} {:+.1f} % reported, {:+.1f} % predicted\n", spec.against, here.metric,
                           100 * (here.reported / there.reported - 1),
                           100 * (here.predicted->value / there.predicted->value - 1));
  }
  return out;
}

std::string explanation(const StudyResult& study, std::size_t i) {
  const StudyRun& spec = study.config.runs[i];
  std::string out = ratio_text(study, i);
  if (!spec.assumes.empty()) out += wrapped("  assumes: ", spec.assumes);
  for (const StudyInput& input : spec.inputs) {
    std::string values;
    for (const std::string& value : input.values) values += (values.empty() ? "" : " or ") + value;
    out += wrapped("  interval: ",
                   formatted("{} = {}{}{}", input.key, values, input.source.empty() ? "" : ", ", input.source));
  }
  if (!spec.unexplained.empty()) out += wrapped("  unexplained: ", spec.unexplained);
  if (const std::string& error = study.rows[i].outcome.error; !error.empty()) out += wrapped("  engine: ", error);
  for (std::size_t h = 0; h < spec.hypotheses.size(); ++h)
    out += hypothesis_text(study.config, spec, spec.hypotheses[h], study.rows[i].hypotheses[h]);
  return out.empty() ? "" : "\n" + spec.name + "\n" + out;
}

std::string slope_text(const StudySlope& s, const SlopeOutcome& found) {
  const MetricRow* metric = find_metric(s.metric);
  const auto text = [&](const std::optional<double>& value) { return value ? formatted("{:.4g}", *value) : "-"; };
  const std::optional<bool> agrees = found.agrees(s);
  return wrapped("  ", formatted("{}: {:.4g} +- {:.2g} {} reported, {} through the reported figures, {} predicted{}",
                                 s.name, s.reported, s.plus_minus, metric ? metric->unit : "", text(found.of_reported),
                                 text(found.predicted),
                                 !agrees   ? ""
                                 : *agrees ? ": agrees"
                                           : ": outside the reported interval, unexplained"));
}

}  // namespace

std::string to_text(const StudyResult& study) {
  const StudyConfig& config = study.config;
  std::string out = config.name + "\n";
  if (!config.source.empty()) out += wrapped("  reported: ", config.source);
  out += "\n" + table(study);
  for (std::size_t i = 0; i < study.slopes.size(); ++i) out += slope_text(config.slopes[i], study.slopes[i]);
  for (std::size_t i = 0; i < study.rows.size(); ++i) out += explanation(study, i);
  if (!config.contradictions.empty()) out += "\nfigures that do not go together\n";
  for (const Contradiction& c : config.contradictions) {
    out += wrapped("  - ", c.figures + ": " + c.why);
    if (!c.settles.empty()) out += wrapped("      test: ", c.settles);
  }
  return out;
}

}  // namespace specstep
