// Prices of whole passes: parts add up, equal steps are equal, capture and eager differ as they should.
#include "sim/cost/executor.h"

#include <gtest/gtest.h>

#include <numeric>

#include "model/base/units.h"
#include "model/build_plan.h"
#include "sim/engine/phase.h"
#include "sim/plan_of.h"
#include "sim/test_configs.h"

namespace specstep {
namespace {

Timeline price(const RunConfig& config, PassKind kind, Launch launch = Launch::captured) {
  CostExecutor executor(config);
  return executor.prepare(plan_of(config, kind), launch)->run(true);
}

TEST(CostExecutor, PartsAndSpansSumToThePass) {
  const RunConfig config = load_run("seed/eagle3");
  for (const PassKind kind :
       {PassKind::prefill, PassKind::decode, PassKind::verify, PassKind::draft, PassKind::extend}) {
    const Timeline t = price(config, kind);
    EXPECT_NEAR(std::accumulate(t.parts.begin(), t.parts.end(), 0.0), t.seconds, t.seconds * 1e-9);
    double spans = 0;
    for (const StepTime& step : t.spans) spans += step.seconds + step.gap;
    EXPECT_NEAR(spans, t.seconds, t.seconds * 1e-9);
    EXPECT_EQ(t.spans.size(), plan_of(config, kind).steps.size());
  }
}

TEST(CostExecutor, EqualLayersCostTheSame) {
  const RunConfig config = load_run("seed/baseline-graph128");
  const Plan plan = plan_of(config, PassKind::decode);
  const Timeline t = price(config, PassKind::decode);
  std::map<std::int32_t, double> layers;
  for (std::size_t i = 0; i < plan.steps.size(); ++i) layers[plan.steps[i].layer] += t.spans[i].seconds;
  for (std::int32_t layer = 2; layer < 61; ++layer) EXPECT_NEAR(layers[layer], layers[1], 1e-15) << layer;
}

TEST(CostExecutor, TimeGrowsWithEverySize) {
  double last = 0;
  for (const char* batch : {"workload.batch=1", "workload.batch=4", "workload.batch=16", "workload.batch=64"}) {
    const double now = price(load_run("seed/baseline-graph128", {batch}), PassKind::decode).seconds;
    EXPECT_GT(now, last);
    last = now;
  }
}

TEST(CostExecutor, AnEagerPassLastsAtLeastItsLaunches) {
  const RunConfig config = load_run("tiny");
  const Plan plan = plan_of(config, PassKind::decode);
  const double launches = plan.total().nodes * config.machine.gpu.eager_launch_us.value * us;
  const Timeline eager = price(config, PassKind::decode, Launch::eager);
  EXPECT_GE(eager.seconds, launches);
  EXPECT_GT(eager.seconds, price(config, PassKind::decode).seconds);
}

// Blocks over parts of the cache, and queries that read it each for itself, are how decode and verify passes attend. A
// prompt of the same engine takes as long as that of one without such a kernel.
TEST(CostExecutor, PromptsDoNotAttendAsDecodeDoes) {
  const auto attention = [](PassKind kind, const std::vector<std::string>& sets) {
    return price(load_run("kimi-k2.6/mtp3", sets), kind).parts[static_cast<std::size_t>(Part::attention)];
  };
  const std::string prompt = "workload.prompt_tokens=8000";
  const std::string bare = "engine.kernels={queries_share_cache: true}";
  EXPECT_DOUBLE_EQ(attention(PassKind::prefill, {prompt}), attention(PassKind::prefill, {prompt, bare}));
  EXPECT_GT(attention(PassKind::verify, {prompt}), attention(PassKind::verify, {prompt, bare}));
}

TEST(CostExecutor, NullBackendIsAnUpperBound) {
  const RunConfig with = load_run("seed/baseline-graph128");
  const RunConfig without = load_run("seed/baseline-graph128", {"comm.backend=\"null\""});
  EXPECT_LT(price(without, PassKind::decode).seconds, price(with, PassKind::decode).seconds);
  EXPECT_EQ(price(without, PassKind::decode).parts[static_cast<std::size_t>(Part::allreduce)], 0);
}

// A fused norm works inside the allreduce's kernel: what goes is its node, and at these sizes the floor hides the trip.
TEST(CostExecutor, AFusedNormCostsANodeLess) {
  const auto run = [](const std::string& fusion) {
    return load_run("llama-3.3-70b-8x-h200", {"comm={backend: push1, fusion: " + fusion + "}"});
  };
  const RunConfig apart = run("none"), fused = run("rmsnorm");
  const Timeline a = price(apart, PassKind::decode), f = price(fused, PassKind::decode);
  const auto part = [](const Timeline& t, Part p) { return t.parts[static_cast<std::size_t>(p)]; };
  const double node = apart.machine.gpu.graph_node_us.value * us;
  const double floor = apart.machine.gpu.kernels.other.floor_us.value * us;
  EXPECT_NEAR(a.seconds - f.seconds, 160 * node, 1e-12);
  EXPECT_NEAR(part(f, Part::allreduce) - part(a, Part::allreduce), 160 * floor, 1e-12);
  EXPECT_NEAR(part(a, Part::norm) - part(f, Part::norm), 160 * floor, 1e-12);
  const PhaseResult phase =
      phase_of(*CostExecutor(fused).prepare(plan_of(fused, PassKind::decode), Launch::captured), f, 1);
  EXPECT_EQ(phase.allreduces_in_layer, 160);
  EXPECT_EQ(phase.allreduces, 161);
  EXPECT_EQ(phase.allreduce_bytes, 16384);
}

// Whose push1 it is: that of engines, or, with comm.own, ours, whose norm is in its own price.
TEST(CostExecutor, OwnKernelsArePricedWhereTheyAreAskedFor) {
  const auto run = [](const std::string& more) {
    return load_run("llama-3.3-70b-8x-h200", {"comm={backend: push1" + more + "}"});
  };
  const RunConfig engines = run(""), own = run(", own: {}"), fused = run(", own: {}, fusion: rmsnorm");
  const auto allreduce = [](const RunConfig& config) {
    return price(config, PassKind::decode).parts[static_cast<std::size_t>(Part::allreduce)];
  };
  const comm::FabricSpec& fabric = engines.machine.fabric;
  comm::Pricer pricer(comm::build_topology(fabric));
  const auto seconds = [&](const RunConfig& config) {
    return pricer.price("push1", {.ranks = 8, .bytes = 16384, .own = config.comm.own}).seconds;
  };
  EXPECT_GT(seconds(own), 1.1 * seconds(engines));
  EXPECT_NEAR(allreduce(engines), 161 * seconds(engines), 1e-12);
  EXPECT_NEAR(allreduce(own), 161 * seconds(own), 1e-12);
  const double norm = fabric.gpu.own_kernels->norm_us.value * us;
  EXPECT_GT(norm, engines.machine.gpu.kernels.other.floor_us.value * us);
  EXPECT_NEAR(allreduce(fused), 161 * seconds(own) + 160 * norm, 1e-12);
}

// The cuda executor runs our kernels, so that its choices by price are between those.
TEST(RunConfig, OwnKernelsAreThoseAskedForOrAboutToRun) {
  EXPECT_FALSE(load_run("tiny").own_kernels());
  EXPECT_EQ(load_run("tiny", {"measure.executor=cuda"}).own_kernels(), comm::OwnSettings{});
  EXPECT_EQ(load_run("tiny", {"comm={own: {wire: ll}}"}).own_kernels()->wire, "ll");
}

TEST(CostExecutor, FusionFollowsTheBackendOfEachMessage) {
  const auto fused = [](const std::string& comm, PassKind kind, std::int64_t batch = 1) {
    const Plan plan =
        plan_of(load_run("llama-3.3-70b-8x-h200", {"comm=" + comm, "workload.batch=" + std::to_string(batch)}), kind);
    return std::count_if(plan.steps.begin(), plan.steps.end(),
                         [](const Step& s) { return std::holds_alternative<AllReduceNorm>(s.op); });
  };
  const std::string table = "{table: [{up_to_kib: 64, backend: push1}, {backend: nccl}], fusion: rmsnorm}";
  EXPECT_EQ(fused(table, PassKind::decode, 1), 160);
  EXPECT_EQ(fused(table, PassKind::decode, 64), 0);
  EXPECT_EQ(fused("{backend: pull1, fusion: rmsnorm}", PassKind::prefill), 159);
  EXPECT_EQ(fused("{backend: pull1}", PassKind::decode), 0);
  // SGLang's rules take a one-shot push on NVLink at this size.
  EXPECT_EQ(fused("{backend: engine-default, engine: sglang, fusion: rmsnorm}", PassKind::decode), 160);
}

TEST(Executors, TheMissingOnesSayWhy) {
  EXPECT_THROW(make_executor(load_run("tiny", {"measure.executor=cuda"})), Unsupported);
  EXPECT_EQ(make_executor(load_run("tiny"))->name(), "cost");
}

}  // namespace
}  // namespace specstep
