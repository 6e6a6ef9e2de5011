// The host executor behind the common interface, and what it refuses.
#include "sim/host/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "model/base/units.h"
#include "model/build_plan.h"
#include "sim/engine/benchmark.h"
#include "sim/host/memory.h"
#include "sim/host/test_runs.h"
#include "sim/test_configs.h"

namespace specstep {
namespace {

RunConfig tiny(std::vector<std::string> more = {}) {
  more.insert(more.begin(),
              {"measure.executor=host", "workload.output_tokens=12", "measure.warmup=1", "measure.runs=3"});
  return load_run("tiny", more);
}

TEST(HostExecutor, EveryRunIsASample) {
  const RunConfig config = tiny();
  std::vector<std::string> told;
  const RunResult r = run_benchmark(config, *make_executor(config), [&](const std::string& s) { told.push_back(s); });
  EXPECT_EQ(r.executor, "host");
  for (const char* name : {"decode.tok_s", "speculative.tok_s", "speculative.accept_length", "benchmark.tok_s"}) {
    const Metric& m = r.metrics.at(name);
    EXPECT_EQ(m.samples.size(), 3U) << name;
    EXPECT_GT(m.value, 0) << name;
    EXPECT_LE(m.low, m.value) << name;
    EXPECT_LE(m.value, m.high) << name;
  }
  EXPECT_EQ(std::count(told.begin(), told.end(), "plain warm-up 1 of 1"), 1);
  EXPECT_EQ(std::count(told.begin(), told.end(), "speculative run 3 of 3"), 1);
  const auto json = to_json(r);
  EXPECT_EQ(json["executor"], "host");
  EXPECT_TRUE(json["environment"].contains("cores") || !json["environment"].empty());
  EXPECT_EQ(json["metrics"]["decode.step_ms"]["samples"].size(), 3U);
}

TEST(HostExecutor, BreakdownSumsToThePass) {
  const RunConfig config = tiny();
  const RunResult r = run_benchmark(config, *make_executor(config));
  EXPECT_EQ(r.phases.size(), 5U);
  for (const PhaseResult& p : r.phases) {
    EXPECT_NEAR(std::accumulate(p.parts.begin(), p.parts.end(), 0.0), p.seconds, 1e-9) << name_of(p.kind);
    EXPECT_GT(p.parts[static_cast<std::size_t>(Part::gemm)], 0);
  }
}

TEST(HostExecutor, ATracedPlanHasASpanForEachStep) {
  const RunConfig config =
      tiny({"stack=gpt-oss-120b", "stack.layers=2", "stack.hidden=64", "stack.vocab=96", "stack.mlp.experts=8",
            "stack.mlp.expert_intermediate=64", "stack.attention={kind: gqa, heads: 8, kv_heads: 4, head_dim: 8}",
            "speculation={method: none}"});
  const auto executor = make_executor(config);
  for (const std::int64_t context : {0, 20}) {
    const auto prepared =
        executor->prepare(build_plan(config.stack, config.parallel, {PassKind::decode, 2, 1, context}), Launch::eager);
    const Timeline traced = prepared->run(true);
    EXPECT_EQ(traced.spans.size(), prepared->plan().steps.size());
    EXPECT_TRUE(prepared->run(false).spans.empty());
    EXPECT_EQ(prepared->plan().shape.context, context);
  }
}

// One token meets just the experts that it chooses, in each layer that routes; those of an expert parallel rank are
// fewer.
TEST(HostExecutor, ExpertsMetAreCountedByLayer) {
  const auto met = [](const std::string& parallel) {
    const RunConfig config = host::small_run(host::mla_stack, host::eagle_draft, 2,
                                             {"measure.executor=host", "stack.layers=4", "parallel=" + parallel});
    const auto executor = make_executor(config);
    const auto prepared =
        executor->prepare(build_plan(config.stack, config.parallel, {PassKind::decode, 1, 1, 20}), Launch::eager);
    return prepared->run(false).experts_met;
  };
  // Top 2 of 8; the first of the four layers is dense.
  EXPECT_EQ(met("{tensor: 2}"), (std::vector<std::int32_t>{2, 2, 2}));
  const std::vector<std::int32_t> part = met("{tensor: 2, expert: 2}");
  EXPECT_EQ(part.size(), 3U);
  EXPECT_THAT(part, testing::Each(testing::AllOf(testing::Ge(0), testing::Le(2))));
}

TEST(HostExecutor, AStackTooLargeIsRefusedWithWhatWouldFit) {
  const RunConfig kimi = load_run("kimi-k2.5-8x-h200", {"measure.executor=host"});
  const host::MemoryNeed need = host::memory_need(kimi);
  EXPECT_GT(need.weights, 1e12 * 4 * 0.9);  // a trillion parameters as fp32
  const std::string why = refusal_of([&] { host::require_memory(kimi, 600 * gib); });
  EXPECT_THAT(why, testing::HasSubstr("stack: "));
  EXPECT_THAT(why, testing::HasSubstr("GiB"));
  EXPECT_THAT(why, testing::HasSubstr("600"));
  EXPECT_THAT(why, testing::HasSubstr("stack.layers="));
  EXPECT_THAT(refusal_of([&] { host::require_memory(kimi, 1 * gib); }), testing::HasSubstr("not even one layer"));
  // What it says would fit does, and one layer more does not.
  RunConfig fits = kimi;
  const auto at = why.find("stack.layers=") + 13;
  fits.stack.layers = std::stoll(why.substr(at));
  EXPECT_LE(host::memory_need(fits).total(), 600 * gib);
  ++fits.stack.layers;
  EXPECT_GT(host::memory_need(fits).total(), 600 * gib);
  EXPECT_GT(host::memory_available(), 0);
  const std::string crowd = refusal_of([] { host::require_memory(tiny({"workload.batch=100000"}), 1 * gib); });
  EXPECT_THAT(crowd, testing::HasSubstr("workload: "));
  EXPECT_THAT(crowd, testing::HasSubstr("workload.batch="));
}

TEST(HostExecutor, WhatCannotBeComputedIsRefused) {
  EXPECT_THAT(refusal_of([] { make_executor(tiny({"comm.embedding_allreduce=false"})); }),
              testing::HasSubstr("comm.embedding_allreduce"));
  EXPECT_THAT(refusal_of([&] { tiny({"comm.backend=\"null\""}); }), testing::HasSubstr("moves no values"));
}

RunResult run_tiny(const std::vector<std::string>& more) {
  const RunConfig config = tiny(more);
  return run_benchmark(config, *make_executor(config));
}

// A method that has no model runs none, though the file names a draft.
TEST(HostExecutor, NgramLeavesTheDraftOfTheFileAlone) {
  const RunResult with = run_tiny({"speculation.method=ngram", "measure.runs=1"});
  RunConfig without = tiny({"speculation.method=ngram", "measure.runs=1"});
  without.draft.reset();
  const RunResult bare = run_benchmark(without, *make_executor(without));
  for (const PhaseResult& p : with.phases) {
    EXPECT_NE(p.kind, PassKind::draft);
    EXPECT_NE(p.kind, PassKind::extend);
  }
  EXPECT_EQ(with.metrics.at("speculative.accept_length").value, bare.metrics.at("speculative.accept_length").value);
  EXPECT_EQ(with.metrics.at("memory.weights_gib").value, bare.metrics.at("memory.weights_gib").value);
  EXPECT_THAT(with.notes, testing::Contains(testing::HasSubstr("draft tiny EAGLE-3 is not used")));
}

TEST(HostExecutor, RulesChooseBackendsAndSaySo) {
  const RunResult nccl = run_tiny({"measure.runs=1", "speculation.method=none"});
  for (const char* choice : {"auto", "engine-default"}) {
    const RunResult chosen =
        run_tiny({"measure.runs=1", "speculation.method=none", std::string("comm.backend=") + choice});
    EXPECT_THAT(chosen.notes, testing::Contains(testing::HasSubstr(std::string(choice) + " chose")));
    EXPECT_EQ(chosen.generation->digest, nccl.generation->digest);  // sums of two ranks have one order
  }
}

TEST(HostExecutor, GreedySpeculationShowsThatItsTextIsThePlainOne) {
  const RunResult plain = run_tiny({"measure.runs=1", "speculation.method=none"});
  const RunResult drafted = run_tiny({"measure.runs=1"});
  const RunResult other = run_tiny({"measure.runs=1", "measure.host.seed=2"});
  EXPECT_EQ(drafted.generation->digest, plain.generation->digest);
  EXPECT_EQ(drafted.generation->first_difference, -1);
  EXPECT_NE(other.generation->digest, plain.generation->digest);
  EXPECT_THAT(to_text(drafted), testing::HasSubstr("the plain text token for token"));
  EXPECT_THAT(drafted.notes, testing::Contains(testing::HasSubstr("is not used: ")));
  const RunResult counted = run_tiny({"measure.runs=1", "speculation={method: eagle3, draft_length: 3}"});
  EXPECT_THAT(counted.notes, testing::Not(testing::Contains(testing::HasSubstr("is not used"))));
}

TEST(HostExecutor, AgreementUnderTargetOnlySamplingIsExplained) {
  const std::string host = "measure.host={draft_agreement: 1, temperature: 1, accept: ";
  EXPECT_THAT(run_tiny({"measure.runs=1", host + "target_only}"}).notes,
              testing::Contains(testing::HasSubstr("target_only keeps a draft with the target's own chance")));
  EXPECT_THAT(run_tiny({"measure.runs=1", host + "rejection}"}).notes,
              testing::Not(testing::Contains(testing::HasSubstr("target_only"))));
}

}  // namespace
}  // namespace specstep
