// Results: the names that scripts rely on, and text that says what it must.
#include "sim/report/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
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

TEST(Result, JsonHasTheExpertsThatAPassMeets) {
  const RunConfig config = load_run("seed/eagle3", {"stack.mlp.chain_overlap=0"});
  const auto json = to_json(run_benchmark(config, *make_executor(config)));
  // 384 experts of which each token chooses 8, evenly: n tokens meet 384 (1 - (1 - 8/384)^n).
  const auto tokens = json["phases"]["verify"]["tokens"].get<double>();
  EXPECT_EQ(json["phases"]["decode"]["experts"]["local"], 384);
  EXPECT_NEAR(json["phases"]["decode"]["experts"]["expected"].get<double>(), 8, 1e-9);
  EXPECT_NEAR(json["phases"]["verify"]["experts"]["expected"].get<double>(),
              384 * (1 - std::pow(1 - 8 / 384.0, tokens)), 1e-9);
  EXPECT_FALSE(json["phases"]["decode"]["experts"].contains("met")) << "a price meets none";
  EXPECT_FALSE(to_json(result("qwen3-32b-2x-h200"))["phases"]["decode"].contains("experts"));
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

/// Cells of a row of the breakdown, by their right ends.
std::vector<std::size_t> ends_of(const std::string& text, const std::string& row) {
  const std::size_t from = text.find("\n  " + row) + 1;
  const std::string line = text.substr(from, text.find('\n', from) - from);
  std::vector<std::size_t> ends;
  for (std::size_t i = 14; i < line.size(); ++i)
    if (line[i] != ' ' && (i + 1 == line.size() || line.substr(i + 1, 2) == "  ")) ends.push_back(i);
  return ends;
}

// Long prompts send long messages: every column grows with them, and none runs into the next.
TEST(Result, ColumnsHoldLongCells) {
  for (const char* prompt : {"workload.prompt_tokens=30", "workload.prompt_tokens=100000"}) {
    const RunConfig config =
        load_run("seed/baseline-graph128",
                 {prompt, "workload.batch=8", "machine.gpu.memory_gib=900", "machine.gpu.usable_gib=900"});
    const std::string text = to_text(run_benchmark(config, *make_executor(config)));
    EXPECT_EQ(ends_of(text, "allreduces  ").size(), 2u) << text;
    EXPECT_EQ(ends_of(text, "allreduces  ").back(), ends_of(text, "gemm").back()) << text;
  }
}

// The same run measured: a pass is part of its step, and one allreduce as often as there are makes their row.
TEST(Result, MeasuredTotalsGoTogether) {
  const RunConfig config = load_run("tiny", {"measure.executor=host", "speculation.method=none", "measure.runs=3",
                                             "measure.warmup=0", "workload.output_tokens=4"});
  const RunResult r = run_benchmark(config, *make_executor(config));
  for (const PhaseResult& p : r.phases) {
    if (p.kind != PassKind::decode) continue;
    EXPECT_LE(p.seconds * 1e3, r.metrics.at("decode.step_ms").value * (1 + 1e-9));
    const double row = p.parts[static_cast<std::size_t>(Part::allreduce)];
    EXPECT_LE(p.allreduce_seconds * static_cast<double>(p.allreduces_in_layer), row * (1 + 1e-9));
    if (p.allreduces == p.allreduces_in_layer) {
      EXPECT_NEAR(p.allreduce_seconds * static_cast<double>(p.allreduces), row, 1e-9 * row);
    }
  }
}

}  // namespace
}  // namespace specstep
