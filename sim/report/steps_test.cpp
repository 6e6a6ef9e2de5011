// Steps in results: rows against the breakdown, the plan, and passes carried out one by one.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "model/build_plan.h"
#include "sim/engine/benchmark.h"
#include "sim/engine/pass_series.h"
#include "sim/plan_options.h"
#include "sim/test_configs.h"

namespace specstep {
namespace {

RunResult carried_out(const std::string& name, const std::vector<std::string>& sets = {}) {
  const RunConfig config = load_run(name, sets);
  return run_benchmark(config, *make_executor(config));
}

const PhaseResult& phase_in(const RunResult& r, PassKind kind) {
  return *std::find_if(r.phases.begin(), r.phases.end(), [kind](const PhaseResult& p) { return p.kind == kind; });
}

double in_part(const PhaseResult& p, Part part) { return p.parts[static_cast<std::size_t>(part)]; }

/// Rows and breakdown are two views of the same time, the places in the pass a third, and the rows' work is the pass's.
/// `overhead`: seconds of Part::other that belong to no step.
void expect_whole(const PhaseResult& p, double overhead, const std::string& what) {
  ASSERT_FALSE(p.steps.rows.empty()) << what;
  const double near = 1e-12 * p.seconds;
  std::map<Part, double> parts;
  Cost work;
  double all = 0;
  for (const StepRow& row : p.steps.rows) {
    parts[row.part] += row.seconds;
    all += row.seconds;
    work += row.cost;
  }
  for (const auto& [part, seconds] : parts)
    EXPECT_NEAR(seconds + (part == Part::other ? overhead : 0), in_part(p, part), near) << what << name_of(part);
  EXPECT_NEAR(all + overhead + in_part(p, Part::launch) + in_part(p, Part::skew) + in_part(p, Part::host), p.seconds,
              near)
      << what;
  EXPECT_NEAR(work.bytes(), p.cost.bytes(), 1e-12 * p.cost.bytes()) << what;
  EXPECT_NEAR(work.flops, p.cost.flops, 1e-12 * p.cost.flops) << what;
  EXPECT_NEAR(work.weight_bytes, p.cost.weight_bytes, 1e-12 * p.cost.weight_bytes) << what;
  std::vector<double> seconds(p.steps.rows.size());
  std::vector<std::int64_t> count(p.steps.rows.size());
  for (const StepPlace& place : p.steps.order) {
    seconds[place.row] += place.seconds;
    ++count[place.row];
  }
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    EXPECT_NEAR(seconds[i], p.steps.rows[i].seconds, near) << what;
    EXPECT_EQ(count[i], p.steps.rows[i].count) << what;
  }
}

void expect_whole(const RunResult& r, double overhead = 0) {
  for (const PhaseResult& p : r.phases) expect_whole(p, overhead, r.config.name + " " + name_of(p.kind) + " ");
}

TEST(Steps, RowsAndBreakdownAreTheSameTime) {
  expect_whole(carried_out("tiny"));
  expect_whole(carried_out("seed/eagle3"));
  expect_whole(carried_out("gpt-oss-120b-8x-h200"));  // two kinds of attention in turn
  const std::vector<std::string> busy{
      "engine.cycle={rules: sglang_v2, host: {verify: {captured_us: 200}, decode: {captured_us: 50}}}",
      "engine.skew={source: test, of: wait, captured: {median_us: 3}}", "engine.phases.decode=eager"};
  const RunResult waits = carried_out("tiny", busy);
  EXPECT_GT(in_part(phase_in(waits, PassKind::verify), Part::host), 0);
  EXPECT_GT(in_part(phase_in(waits, PassKind::decode), Part::launch), 0);
  expect_whole(waits);
}

// SGLang V1's eager extend is a mean of passes over two and three tokens. It shows the shapes of the nearer one.
TEST(Steps, AMeanOfLengthsIsOneToo) {
  for (const auto& [length, nearest] : {std::pair{"2.25", 2}, std::pair{"2.75", 3}}) {
    const RunResult r = carried_out("tiny", {"engine.cycle.rules=sglang_v1", "engine.phases.extend=eager",
                                             std::string("speculation.acceptance={length: ") + length + "}"});
    const PhaseResult& extend = phase_in(r, PassKind::extend);
    expect_whole(extend, 0, "extend");
    EXPECT_EQ(extend.tokens, nearest);
    const auto qkv = std::find_if(extend.steps.rows.begin(), extend.steps.rows.end(),
                                  [](const StepRow& row) { return row.kind == StepKind::qkv; });
    ASSERT_NE(qkv, extend.steps.rows.end());
    EXPECT_EQ(op_text(qkv->op).find("[" + std::to_string(nearest) + ", "), 0U) << op_text(qkv->op);
  }
}

TEST(Steps, TimeOfLayersBelongsToNoStep) {
  const RunResult r = carried_out("tiny", {"speculation.method=none", "engine.kernels.layer_overhead_us=7"});
  expect_whole(r, static_cast<double>(r.config.stack.layers) * 7e-6);
}

TEST(Steps, MeasuredStepsAreTheSameTime) {
  expect_whole(
      carried_out("tiny", {"measure.executor=host", "measure.runs=2", "measure.warmup=0", "workload.output_tokens=8"}));
}

// The phase is a mean over five contexts, the outer two half as heavy. Only attention changes along them.
TEST(Steps, ARowIsTheMeanOverTheContexts) {
  const RunConfig config =
      load_run("tiny", {"speculation.method=none", "workload.prompt_tokens=1000", "workload.output_tokens=4001"});
  const auto executor = make_executor(config);
  double seconds = 0, bytes = 0;
  for (int i = 0; i < 5; ++i) {
    const PassShape shape{PassKind::decode, 1, 1, 1000 + 1000 * i};
    const auto prepared =
        executor->prepare(build_plan(config.stack, config.parallel, shape, plan_options(config)), Launch::captured);
    const Timeline t = prepared->run(true);
    for (std::size_t s = 0; s < t.spans.size(); ++s) {
      const Step& step = prepared->plan().steps[s];
      if (step.kind != StepKind::attention) continue;
      seconds += t.spans[s].seconds * (i == 0 || i == 4 ? 0.125 : 0.25);
      bytes += cost_of(step.op).bytes() * (i == 0 || i == 4 ? 0.125 : 0.25);
    }
  }
  const RunResult r = run_benchmark(config, *executor);
  for (const StepRow& row : phase_in(r, PassKind::decode).steps.rows) {
    if (row.kind != StepKind::attention) continue;
    EXPECT_NEAR(row.seconds, seconds, 1e-12 * seconds);
    EXPECT_NEAR(row.cost.bytes(), bytes, 1e-12 * bytes);
    EXPECT_EQ(std::get<Attention>(row.op).context, 3000) << "the pass halfway";
  }
}

// 61 layers, of which the first is dense: one row for what all have, one for each kind of MLP.
TEST(Steps, EqualLayersAreOneRow) {
  const auto json = to_json(carried_out("seed/eagle3"));
  const auto& steps = json["phases"]["verify"]["steps"];
  std::map<std::string, std::int64_t> count;
  std::set<std::pair<std::string, std::string>> shapes;
  std::int64_t allreduces = 0;
  double seconds = 0;
  for (const auto& row : steps) {
    for (const char* key : {"label", "op", "shape", "part", "count", "seconds", "gb_s", "bytes", "weight_bytes",
                            "flops", "provenance", "extrapolated"})
      EXPECT_TRUE(row.contains(key)) << key;
    EXPECT_TRUE(shapes.emplace(row["label"], row["shape"]).second) << row << " is there twice";
    count[row["label"]] += row["count"].get<std::int64_t>();
    if (row["op"] == "allreduce") allreduces += row["count"].get<std::int64_t>();
    seconds += row["seconds"].get<double>();
    EXPECT_NEAR(row["gb_s"].get<double>() * 1e9 * row["seconds"].get<double>(),
                row.contains("comm_bytes") ? row["comm_bytes"].get<double>() : row["bytes"].get<double>(), 1);
  }
  EXPECT_EQ(count.at("o_proj"), 61);
  EXPECT_EQ(count.at("gate_up"), 1);
  EXPECT_EQ(count.at("expert_gate_up"), 60);
  EXPECT_EQ(count.at("lm_head"), 1);
  EXPECT_EQ(allreduces, 123);
  EXPECT_EQ(steps[0]["label"], "embed");
  EXPECT_EQ(steps[1]["label"], "embed_allreduce");
  const auto& parts = json["phases"]["verify"]["breakdown"];
  for (const char* part : {"launch", "skew", "host"}) seconds += parts[part].get<double>();
  EXPECT_NEAR(seconds, json["phases"]["verify"]["seconds"].get<double>(), 1e-12);
}

// Where passes of one phase have other steps, none of the time is lost.
TEST(Steps, PassesOfOtherStepsStandBehindEachOther) {
  const PhaseResult dense = phase_in(carried_out("tiny"), PassKind::decode);
  const PhaseResult routed = phase_in(carried_out("seed/baseline-graph128"), PassKind::decode);
  PhaseResult mean = emptied(dense);
  add_weighted(mean, dense, 0.75);
  EXPECT_EQ(mean.steps.rows.size(), dense.steps.rows.size());
  add_weighted(mean, routed, 0.25);
  EXPECT_EQ(mean.steps.order.size(), dense.steps.order.size() + routed.steps.order.size());
  expect_whole(mean, 0, "mean of two stacks");
}

}  // namespace
}  // namespace specstep
