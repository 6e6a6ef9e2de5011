// Studies: which variants are priced, and what intervals and verdicts say.
#include "sim/study.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/engine/benchmark.h"
#include "sim/file_kind.h"
#include "sim/test_studies.h"

namespace specstep {
namespace {

using testing::HasSubstr;

double value(const RunConfig& run, const std::string& metric) {
  return run_benchmark(run, *make_executor(run)).metrics.at(metric).value;
}

const char* const two_rows = R"(
name: s
runs:
  - name: a
    run: tiny
    set: {workload.batch: 2}
    reported: {decode.step_ms: 1}
    inputs:
      - {key: workload.prompt_tokens, values: [100, 1000]}
      - {key: workload.output_tokens, values: [500]}
    hypotheses:
      - {name: deeper, claim: more layers, set: {stack.layers: 8, workload.output_tokens: 65}, also: [b]}
      - {name: other, claim: another run, run: tiny, inputs: [{key: workload.prompt_tokens, values: [17]}]}
  - {name: b, run: tiny, reported: {decode.tok_s: 1e6}}
)";

TEST(Study, VariantsAreWhatSetMakesThem) {
  const ReadStudy study = read_study_text(two_rows);
  const ReadRow& a = study.rows.at(0);
  EXPECT_EQ(a.variant.command, "specstep run tiny --set workload.batch=2");
  EXPECT_EQ(a.variant.run.workload.batch, 2);
  ASSERT_EQ(a.variant.span.size(), 5u);  // 3 x 2 values, less the run as it stands
  const ReadHypothesis& deeper = a.hypotheses.at(0);
  EXPECT_EQ(deeper.variant.command,
            "specstep run tiny --set workload.batch=2 --set stack.layers=8 --set workload.output_tokens=65");
  EXPECT_EQ(deeper.variant.run.stack.layers, 8);
  EXPECT_EQ(deeper.variant.span.size(), 2u);  // output_tokens is certain here
  ASSERT_EQ(deeper.also.size(), 1u);
  EXPECT_EQ(deeper.also[0].run.stack.layers, 8);
  EXPECT_EQ(deeper.also[0].run.workload.batch, 1);  // the keys of row a stay there
  const ReadHypothesis& other = a.hypotheses.at(1);
  EXPECT_EQ(other.variant.command, "specstep run tiny");
  EXPECT_EQ(other.variant.span.size(), 3u);  // its own prompt values in place of the row's, by both output lengths
}

TEST(Study, IntervalsSpanTheInputs) {
  const StudyResult result = run_study(read_study_text(two_rows));
  const Metric& step = *result.rows.at(0).outcome.figures.at(0).predicted;
  double low = 1e9, high = 0;
  for (const char* prompt : {"16", "100", "1000"})
    for (const char* output : {"64", "500"}) {
      const double ms = value(load_run("tiny", {"workload.batch=2", std::string("workload.prompt_tokens=") + prompt,
                                                std::string("workload.output_tokens=") + output}),
                              "decode.step_ms");
      low = std::min(low, ms);
      high = std::max(high, ms);
    }
  EXPECT_DOUBLE_EQ(step.low, low);
  EXPECT_DOUBLE_EQ(step.high, high);
  EXPECT_LT(step.low, step.high);
  EXPECT_EQ(step.interval, "least and largest over 6 combinations of the study's inputs");
  EXPECT_DOUBLE_EQ(result.rows[0].hypotheses[0].also[0].figures[0].predicted->value,
                   value(load_run("tiny", {"stack.layers=8", "workload.output_tokens=65"}), "decode.tok_s"));
}

TEST(Study, VerdictsAreThoseOfTheNumbers) {
  const auto metric = [](double v, double low, double high) { return Metric{v, {v}, low, high, ""}; };
  EXPECT_EQ(agreement_of(metric(10, 8, 20), 19, 0.1), Agreement::spans);
  EXPECT_EQ(agreement_of(metric(10, 8, 20), 20.5, 0.1), Agreement::misses);
  EXPECT_EQ(agreement_of(metric(10, 10, 10), 10.5, 0.05), Agreement::near);
  EXPECT_EQ(agreement_of(metric(10, 10, 10), 10.6, 0.05), Agreement::misses);
}

TEST(Study, FaultsOfAVariantHaveThePlaceOfItsKey) {
  const auto refusal = [](const std::string& rest) {
    return refusal_of([&] { read_study_text("name: s\nruns:\n  - name: a\n    run: tiny\n" + rest); });
  };
  EXPECT_THAT(refusal("    set: {workload.batch: 0}\n"),
              HasSubstr("study.yaml:5:27: runs[0]: workload.batch: is '0'; an integer at least 1"));
  EXPECT_THAT(refusal("    hypotheses:\n      - {name: x, claim: c, set: {stack.layer: 3}}\n"),
              HasSubstr("study.yaml:6:48: runs[0].hypotheses[0]: stack.layer: unknown key, did you mean 'layers'?"));
  EXPECT_THAT(refusal("    hypotheses:\n      - {name: x, claim: c}\n"), HasSubstr("hypotheses[0].set: missing"));
  EXPECT_THAT(refusal("    hypotheses:\n      - {name: x, claim: c, set: {workload.batch: 2}, also: [b]}\n"),
              HasSubstr("also[0]: is no row"));
  EXPECT_THAT(refusal("    hypotheses:\n      - {name: x, claim: c, run: tinny}\n"), HasSubstr("no 'tinny'"));
  EXPECT_THAT(refusal("    against: a\n"), HasSubstr("runs[0].against: is no other row"));
  EXPECT_THAT(refusal("    reported: {tok_s: 3}\n"), HasSubstr("runs[0].reported.tok_s: unknown metric"));
  EXPECT_THAT(refusal("    inputs: [{key: workload.batch, values: [two]}]\n"), HasSubstr("workload.batch: is 'two'"));
}

TEST(Study, CheckReadsEveryVariant) {
  const ConfigLibrary library(test_configs);
  ReadOptions options;
  options.library = &library;
  const FileKind& kind = file_kind("study");
  const yaml::Node good = yaml::parse("{name: s, runs: [{name: a, run: tiny, set: {workload.batch: 3}}]}", "f");
  const yaml::Node bad = yaml::parse("{name: s, runs: [{name: a, run: tiny, set: {workload.batch: x}}]}", "f");
  EXPECT_EQ(kind.read(good, options, {})["runs"][0]["set"]["workload.batch"], "3");
  EXPECT_THROW(kind.read(bad, options, {}), InputError);
}

TEST(Study, AnEngineThatDoesNotStartIsAnOutcome) {
  const StudyResult result = run_study(read_study_text(
      "{name: s, runs: [{name: a, run: seed/baseline-graph128, set: {machine.gpu.memory_gib.value: 40}, "
      "reported_error: "
      "Not enough memory}, {name: b, run: tiny, reported_error: Not enough memory}]}"));
  EXPECT_FALSE(result.rows[0].outcome.result);
  EXPECT_THAT(result.rows[0].outcome.error, HasSubstr("Not enough memory"));
  const std::string text = to_text(result);
  EXPECT_THAT(text, testing::ContainsRegex("a +start-up +refused +refused .*agrees"));
  EXPECT_THAT(text, testing::ContainsRegex("b +start-up +refused +starts .*misses"));
  EXPECT_TRUE(to_json(result)["runs"][0].contains("error"));
  EXPECT_FALSE(to_json(result)["runs"][0].contains("result"));
}

TEST(Study, TextAndJsonHoldWhatWasFound) {
  StudyResult result = run_study(read_study_text(two_rows));
  const std::string text = to_text(result);
  for (const char* part : {"reported predicted", "interval: workload.prompt_tokens = 100 or 1000", "? deeper",
                           "but then b would be", "specstep run tiny --set workload.batch=2 --set stack.layers=8"})
    EXPECT_THAT(text, HasSubstr(part));
  for (std::size_t from = 0; from < text.size();) {  // a claim is wrapped; only commands may be longer
    const std::size_t end = text.find('\n', from);
    const std::string line = text.substr(from, end - from);
    if (line.find("specstep run") == std::string::npos) {
      EXPECT_LE(line.size(), 120u) << line;
    }
    from = end + 1;
  }
  const auto json = to_json(result);
  EXPECT_EQ(json["schema"], "specstep.study/1");
  EXPECT_EQ(json["runs"][0]["reported"]["decode.step_ms"], 1);
  EXPECT_EQ(json["runs"][0]["result"]["schema"], "specstep.result/1");
  const auto& deeper = json["runs"][0]["hypotheses"][0];
  EXPECT_EQ(deeper["set"]["stack.layers"], "8");
  EXPECT_EQ(deeper["figures"][0]["agreement"], "misses");
  EXPECT_LE(deeper["figures"][0]["low"], deeper["figures"][0]["high"]);
  EXPECT_EQ(deeper["also"][0]["row"], "b");
  EXPECT_THAT(to_csv(result), HasSubstr("\na / deeper,decode.step_ms,"));
}

// y = 3 + 2 x through three points, by hand; the predictions are linear in the output tokens but for the cache.
TEST(Study, SlopesAreLeastSquares) {
  const StudyResult result = run_study(read_study_text(
      "{name: s, runs: [{name: a, run: tiny, set: {workload.output_tokens: 100}, reported: {benchmark.seconds: 203}}, "
      "{name: b, run: tiny, set: {workload.output_tokens: 200}, reported: {benchmark.seconds: 403}}, {name: c, run: "
      "tiny, set: {workload.output_tokens: 300}, reported: {benchmark.seconds: 603}}], slopes: [{name: n, over: "
      "workload.output_tokens, metric: benchmark.seconds, rows: [a, b, c], reported: 2}]}"));
  EXPECT_NEAR(*result.slopes.at(0).of_reported, 2, 1e-12);
  const auto seconds = [](int tokens) {
    return value(load_run("tiny", {"workload.output_tokens=" + std::to_string(tokens)}), "benchmark.seconds");
  };
  EXPECT_NEAR(*result.slopes[0].predicted, (seconds(300) - seconds(100)) / 200, 1e-12);
}

}  // namespace
}  // namespace specstep
