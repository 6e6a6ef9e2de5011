// Passes, collectives and host work of a round, by engine.
#include "sim/engine/cycle.h"

#include <gtest/gtest.h>

#include "model/base/units.h"
#include "sim/engine/benchmark.h"
#include "sim/engine/break_even.h"
#include "sim/test_configs.h"

namespace specstep {
namespace {

RunResult run(const std::vector<std::string>& sets) {
  std::vector<std::string> all{"engine.cycle={rules: sglang_v2}"};  // no host work but what a test gives
  all.insert(all.end(), sets.begin(), sets.end());
  const auto config = load_run("seed/eagle3", all);
  return run_benchmark(config, *make_executor(config));
}
double value(const RunResult& r, const std::string& name) { return r.metrics.at(name).value; }
const PhaseResult* phase(const RunResult& r, PassKind kind) {
  for (const PhaseResult& p : r.phases)
    if (p.kind == kind) return &p;
  return nullptr;
}
double part(const PhaseResult& p, Part which) { return p.parts[static_cast<std::size_t>(which)]; }

const std::string chain3 = "speculation.draft_length=3";
const std::string rate = "speculation.acceptance={rate: 0.6}";

// SGLang: S - 1 draft steps, verify, extend: S passes of the draft; vLLM counts the same. TensorRT-LLM's vanilla MTP
// runs one module for each draft.
TEST(Cycle, PassesByEngine) {
  const DraftShape chain{3, 1, 4};
  for (const CycleRules rules : {CycleRules::sglang_v1, CycleRules::sglang_v2, CycleRules::vllm,
                                 CycleRules::tensorrt_llm, CycleRules::tensorrt_llm_vanilla}) {
    const DraftPasses p = draft_passes(rules, chain);
    EXPECT_EQ(p.steps + p.extends, 3) << name_of(rules);
    const DraftPasses one = draft_passes(rules, {1, 1, 2});
    EXPECT_EQ(one.steps, 0) << name_of(rules);  // the only draft comes out of the extend before
    EXPECT_EQ(one.step_launches, 0) << name_of(rules);
    EXPECT_EQ(one.extends, 1) << name_of(rules);
  }
  EXPECT_EQ(draft_passes(CycleRules::sglang_v2, chain).step_launches, 1);  // one graph holds all steps
  EXPECT_EQ(draft_passes(CycleRules::vllm, chain).step_launches, 2);
}

// 61 layers: 123 allreduces in verify, 3 in each of 3 draft passes, and 4 gathers: counted from plans, not from rules.
TEST(Cycle, CollectivesOfARound) {
  const RunResult r = run({chain3, rate});
  double allreduces = 0;
  for (const PhaseResult& p : r.phases)
    if (p.kind != PassKind::decode && p.kind != PassKind::prefill)
      allreduces += p.passes_per_cycle * static_cast<double>(p.allreduces);
  EXPECT_EQ(allreduces, 123 + 3 * 3);
  const RunResult alone = run({chain3, rate, "parallel.draft_tensor=1"});
  EXPECT_EQ(phase(alone, PassKind::draft)->allreduces, 0);
  EXPECT_EQ(phase(alone, PassKind::extend)->allreduces, 0);
  EXPECT_EQ(part(*phase(alone, PassKind::draft), Part::allgather), 0);
  EXPECT_EQ(phase(alone, PassKind::verify)->allreduces, 123);
}

TEST(Cycle, OneDraftHasNoDraftPhase) {
  EXPECT_EQ(phase(run({"speculation.draft_length=1", rate}), PassKind::draft), nullptr);
}

// Host work stands in front of each launch: three for SGLang (draft graph, verify, extend), four for vLLM with K = 3.
TEST(Cycle, HostWorkIsCountedByLaunch) {
  const auto with = [&](const std::string& rules) {
    return run({chain3, rate,
                "engine.cycle={rules: " + rules +
                    ", host: {draft: {captured_us: 100}, verify: {captured_us: 200}, extend: {captured_us: 400}, "
                    "decode: {captured_us: 50}}}"});
  };
  const RunResult none = run({chain3, rate});
  const auto more = [&](const RunResult& r) {
    return value(r, "speculative.cycle_ms") - value(none, "speculative.cycle_ms");
  };
  EXPECT_NEAR(more(with("sglang_v2")), 0.7, 1e-9);
  EXPECT_NEAR(more(with("vllm")), 0.8, 1e-9);
  EXPECT_NEAR(more(with("tensorrt_llm")), 0.2, 1e-9);  // one graph
  const RunResult v2 = with("sglang_v2");
  EXPECT_NEAR(value(v2, "decode.step_ms") - value(none, "decode.step_ms"), 0.05, 1e-9);
  EXPECT_NEAR(part(*phase(v2, PassKind::draft), Part::host), 50 * us, 1e-12);  // two steps share one launch
  for (const PhaseResult& p : v2.phases) {
    double sum = 0;
    for (const double seconds : p.parts) sum += seconds;
    EXPECT_NEAR(sum, p.seconds, 1e-12) << name_of(p.kind);
  }
}

// What the host does in front of a pass does not get less because it launches more.
TEST(Cycle, EagerHostWorkIsTheCapturedWorkWhereItIsNotGiven) {
  const auto host = [&](const std::string& verify) {
    const RunResult r = run({chain3, rate, "engine.phases.verify=eager",
                             "engine.cycle={rules: sglang_v2, host: {verify: {" + verify + "}}}"});
    return part(*phase(r, PassKind::verify), Part::host) / us;
  };
  EXPECT_NEAR(host("captured_us: 523"), 523, 1e-6);
  EXPECT_NEAR(host("captured_us: 523, eager_us: 700"), 700, 1e-6);
  EXPECT_NEAR(host("eager_us: 700"), 700, 1e-6);
}

// A pass without a graph lasts at least as long. Of a whole cycle SGLang's eager extend saves the tokens that were not
// accepted, and vLLM's eager drafts the rounding of sizes to whole verify passes: less than one per cent.
TEST(Cycle, GraphsNeverCostSpeed) {
  for (const char* name : {"kimi-k2.6/mtp3", "seed/eagle3", "llama-3.3-70b-8x-h200", "deepseek-r1-fp4-8x-b200"}) {
    const auto of = [&](const std::vector<std::string>& sets) {
      const RunConfig config = load_run(name, sets);
      return run_benchmark(config, *make_executor(config));
    };
    const RunResult graphs = of({}), none = of({"engine.graph.mode=none"});
    for (const PassKind kind : {PassKind::decode, PassKind::verify})
      if (phase(graphs, kind)) {
        EXPECT_GE(phase(none, kind)->seconds, phase(graphs, kind)->seconds) << name << ' ' << name_of(kind);
      }
    if (graphs.config.speculative()) {
      EXPECT_LE(value(none, "speculative.tok_s"), 1.01 * value(graphs, "speculative.tok_s")) << name;
    }
  }
}

TEST(Cycle, ACycleLastsAsLongAsTheHostIsBusy) {
  const auto with = [&](double us_of_host) {
    return value(run({chain3, rate,
                      "engine.cycle={rules: vllm, host: {overlapped_cycle_us: " + std::to_string(us_of_host) +
                          ", overlapped_step_us: 20000}}"}),
                 "speculative.cycle_ms");
  };
  const RunResult none = run({chain3, rate});
  EXPECT_NEAR(with(1000), value(none, "speculative.cycle_ms"), 1e-9);  // hidden
  EXPECT_NEAR(with(50000), 50, 1e-9);
  EXPECT_NEAR(value(run({"engine.cycle={rules: vllm, host: {overlapped_step_us: 20000}}"}), "decode.step_ms"), 20,
              1e-9);
  // A node launched takes host time too: 10 us for each kernel of all passes outlast them.
  const RunResult nodes = run({chain3, rate, "engine.cycle={rules: vllm, host: {graph_node_us: 20}}"});
  double launched = 0;
  for (const PhaseResult& p : none.phases)
    if (p.kind != PassKind::decode && p.kind != PassKind::prefill)
      launched += p.passes_per_cycle * p.cost.nodes * 20 * us;
  EXPECT_NEAR(value(nodes, "speculative.cycle_ms"), launched / ms, 1e-6);
}

// V1's eager extend carries what was accepted, on the mean: between the whole numbers around it.
TEST(Cycle, AnEagerExtendOfV1CarriesTheAcceptedTokens) {
  const auto extend = [&](const std::string& acceptance, const std::string& rules) {
    const RunResult r = run({chain3, "speculation.acceptance=" + acceptance, "engine.cycle={rules: " + rules + "}",
                             "engine.phases.extend=eager", "workload.batch=8"});
    return *phase(r, PassKind::extend);
  };
  const PhaseResult two = extend("{length: 2}", "sglang_v1");
  const PhaseResult three = extend("{length: 3}", "sglang_v1");
  const PhaseResult between = extend("{length: 2.25}", "sglang_v1");
  EXPECT_EQ(two.tokens, 16);
  EXPECT_EQ(between.tokens, 18);
  EXPECT_NEAR(between.allreduce_seconds, 0.75 * two.allreduce_seconds + 0.25 * three.allreduce_seconds, 1e-12);
  EXPECT_EQ(extend("{length: 2.25}", "sglang_v2").tokens, 32);
}

TEST(Cycle, SkewIsWaitTimesAllreducesAndTheThreeTimesAddUp) {
  const std::string skew = "engine.skew={source: a test, of: wait, eager: {median_us: 157}}";
  const RunResult captured = run({skew});
  const RunResult eager = run({skew, "engine.phases.verify=eager"});
  EXPECT_EQ(part(*phase(captured, PassKind::verify), Part::skew), 0);
  const PhaseResult& verify = *phase(eager, PassKind::verify);
  EXPECT_NEAR(part(verify, Part::skew), 123 * 157 * us, 1e-12);
  EXPECT_NEAR(value(eager, "allreduce.in_situ_us"), value(eager, "allreduce.isolated_us") + 157, 1e-9);
  EXPECT_NEAR(value(eager, "allreduce.wait_us"), 157, 1e-9);
  EXPECT_NEAR(value(eager, "allreduce.rest_of_pass_ms") + 123 * value(eager, "allreduce.in_situ_us") * us / ms,
              value(eager, "verify.pass_ms"), 1e-9);
}

TEST(BreakEven, TermsSumToWhatACycleTakesBeyondAStep) {
  const RunResult r = run({chain3, rate, "engine.cycle=sglang-v1", "engine.phases.verify=eager",
                           "engine.skew={source: a test, of: wait, eager: {median_us: 157}}"});
  double sum = 0;
  for (const CycleTerm& term : r.cycle_terms) sum += term.seconds;
  EXPECT_NEAR(sum, (value(r, "speculative.cycle_ms") - value(r, "decode.step_ms")) * ms, 1e-12);
  EXPECT_EQ(r.cycle_terms.front().name, "skew");  // 19 ms of it: the term that decides
  EXPECT_EQ(run({chain3, rate}).cycle_terms.front().name, "verify moe");
}

}  // namespace
}  // namespace specstep
