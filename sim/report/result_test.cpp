// Results: the names that scripts rely on, and text that says what it must.
#include "sim/report/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/engine/benchmark.h"
#include "sim/engine/generated_text.h"
#include "sim/report/metrics.h"
#include "sim/test_configs.h"

namespace specstep {
namespace {

using testing::HasSubstr;

RunResult result(const std::string& run) {
  const RunConfig config = load_run(run);
  return run_benchmark(config, *make_executor(config));
}

TEST(Result, JsonHasTheNamesOfTheContract) {
  const auto json = to_json(result("seed/eagle3"));
  EXPECT_EQ(json["schema"], "specstep.result/1");
  EXPECT_EQ(json["executor"], "cost");
  for (const char* key : {"config_hash", "config", "environment", "phases", "metrics", "provenance"})
    EXPECT_TRUE(json.contains(key)) << key;
  for (const char* phase : {"prefill", "decode", "draft", "verify", "extend"}) {
    const auto& p = json["phases"][phase];
    for (const char* key :
         {"seconds", "tokens", "passes_per_cycle", "allreduces", "allreduces_in_layer", "allreduce_bytes",
          "allreduce_seconds", "flops", "bytes", "weight_bytes", "kv_bytes", "activation_bytes", "nodes"})
      EXPECT_TRUE(p.contains(key)) << phase << ' ' << key;
    double sum = 0;
    for (const char* part :
         {"gemm", "moe", "attention", "norm", "allreduce", "allgather", "alltoall", "launch", "skew", "host", "other"})
      sum += p["breakdown"].at(part).get<double>();
    EXPECT_NEAR(sum, p["seconds"].get<double>(), 1e-9);
    EXPECT_NEAR(p["weight_bytes"].get<double>() + p["kv_bytes"].get<double>() + p["activation_bytes"].get<double>(),
                p["bytes"].get<double>(), 1);
  }
  for (const auto& [name, metric] : json["metrics"].items())
    for (const char* key : {"value", "unit", "better", "samples", "low", "high"})
      EXPECT_TRUE(metric.contains(key)) << name << ' ' << key;
  EXPECT_EQ(json["metrics"]["decode.step_ms"]["better"], "lower");
}

TEST(Result, EveryMetricOfARunStandsInTheTable) {
  for (const auto& [name, ignored] : result("seed/eagle3").metrics) EXPECT_NE(find_metric(name), nullptr) << name;
}

TEST(Result, ProvenanceSharesSumToOne) {
  const RunResult r = result("seed/baseline-graph128");
  double sum = 0;
  for (const auto& [source, share] : r.provenance)
    if (source != "extrapolated") sum += share;
  EXPECT_NEAR(sum, 1, 1e-9);
}

TEST(Result, TextTellsATreeByItsShape) {
  RunResult r = result("tiny");
  EXPECT_THAT(to_text(r), HasSubstr("eagle3, draft length 3\n"));
  r.config.speculation.tree = TreeSpec{2, 3, 8};
  EXPECT_THAT(to_text(r), HasSubstr("eagle3, tree of 2 steps, top 3, 8 tokens verified\n"));
}

TEST(Result, MeasuredMetricsShowTheirRange) {
  RunResult r = result("tiny");
  EXPECT_THAT(to_text(r), testing::Not(HasSubstr(" to ")));
  r.metrics["decode.tok_s"] = {20, {10, 20, 35}, 10, 35, "smallest and largest of 3 runs"};
  EXPECT_THAT(to_text(r), HasSubstr("20 tok/s (10 to 35)\n"));
}

// The digest of FNV-1a, by a reference implementation: of the empty text and of "1 2 \n3 \n".
TEST(Result, GeneratedTextIsTellableFromOutside) {
  EXPECT_EQ(digest_of({}), "cbf29ce484222325");
  EXPECT_EQ(digest_of({{1, 2}, {3}}), "41e95f63c0c75fcf");
  EXPECT_EQ(first_difference({{1, 2, 3}, {4, 5, 6}}, {{1, 2, 3}, {4, 5, 6}}), -1);
  EXPECT_EQ(first_difference({{1, 2, 3}, {4, 5, 6}}, {{1, 2, 0}, {4, 0, 6}}), 1);
  RunResult r = result("tiny");
  EXPECT_FALSE(to_json(r).contains("generation"));
  r.generation = GeneratedText{"a", "b", 4};
  EXPECT_EQ(to_json(r)["generation"]["plain_digest"], "b");
  EXPECT_THAT(to_text(r), HasSubstr("generated text: a, from token 4 on other than the plain one, b"));
}

TEST(Result, CsvHasOneRowAMetric) {
  const RunResult r = result("tiny");
  const std::string csv = to_csv(r);
  EXPECT_EQ(static_cast<std::size_t>(std::count(csv.begin(), csv.end(), '\n')), r.metrics.size() + 1);
}

}  // namespace
}  // namespace specstep
