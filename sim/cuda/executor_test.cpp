// The cuda executor behind the common interface: what it measures, what it refuses, how it fails.
#include "sim/cuda/executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "model/build_plan.h"
#include "sim/cuda/test_rig.h"
#include "sim/engine/benchmark.h"
#include "sim/plan_options.h"

namespace specstep::cuda {
namespace {

RunConfig tiny(std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"measure.executor=cuda", "comm.backend=delay", "workload.output_tokens=12",
                             "measure.warmup=1", "measure.runs=3"});
  return load_run("tiny", more);
}

TEST(CudaExecutor, WithoutADeviceItIsUnsupported) {
  if (devices_here() > 0) GTEST_SKIP() << "this machine has a CUDA device";
  EXPECT_THROW(make_cuda_executor(tiny()), Unsupported);
  EXPECT_THAT(refusal_of([] { make_cuda_executor(tiny()); }), testing::HasSubstr("no GPU can be used here"));
}

TEST(CudaExecutor, ARunIsMeasured) {
  if (devices_here() == 0) GTEST_SKIP() << "no CUDA device";
  const RunConfig config = tiny();
  const RunResult r = run_benchmark(config, *make_cuda_executor(config));
  EXPECT_EQ(r.executor, "cuda");
  for (const char* name : {"decode.tok_s", "speculative.tok_s", "benchmark.tok_s", "verify.pass_ms"}) {
    const Metric& m = r.metrics.at(name);
    EXPECT_EQ(m.samples.size(), 3U) << name;
    EXPECT_GT(m.low, 0) << name;
    EXPECT_LE(m.low, m.value) << name;
    EXPECT_LE(m.value, m.high) << name;
  }
  EXPECT_GT(r.metrics.at("allreduce.isolated_us").value, 0);
  for (const PhaseResult& p : r.phases) {
    EXPECT_NEAR(std::accumulate(p.parts.begin(), p.parts.end(), 0.0), p.seconds, 1e-9) << name_of(p.kind);
    EXPECT_GT(p.parts[static_cast<std::size_t>(Part::gemm)], 0) << name_of(p.kind);
    double steps = p.parts[static_cast<std::size_t>(Part::launch)];
    for (const StepRow& row : p.steps.rows) steps += row.seconds;
    EXPECT_NEAR(steps, p.seconds, 1e-9) << name_of(p.kind);
  }
  EXPECT_EQ(r.devices.size(), 1U);
  // A tiny stack has four layers: eight allreduces in them and one for the embedding.
  EXPECT_THAT(r.notes, testing::Contains(testing::HasSubstr("9 allreduces in it")));
  // Five contexts of a decode step were prepared; each of their facts is one note.
  for (const char* fact : {"decode: a graph of", "decode: the isolated steps sum to"})
    EXPECT_THAT(r.notes, testing::Contains(testing::StartsWith(fact)).Times(1));
  EXPECT_GT(r.metrics.at("memory.used_gib").value, 0);
}

// Alone all steps of a kind and shape take one time; inside a pass each has its own. `delay` lasts as long as the cost
// model says, so that what allreduces take there is known beforehand.
TEST(CudaExecutor, StepsAreTimedInsideThePass) {
  if (devices_here() == 0) GTEST_SKIP() << "no CUDA device";
  const RunConfig config = tiny(), priced = tiny({"measure.executor=cost"});
  const Plan plan = build_plan(config.stack, config.parallel, {PassKind::verify, 1, 4, 16}, plan_options(config));
  const auto allreduces = [&](const Timeline& t) { return t.parts[static_cast<std::size_t>(Part::allreduce)]; };
  const Timeline price = make_executor(priced)->prepare(plan, Launch::captured)->run(true);
  const auto executor = make_cuda_executor(config);
  for (const Launch launch : {Launch::captured, Launch::eager}) {
    const Timeline found = executor->prepare(plan, launch)->run(true);
    ASSERT_EQ(found.spans.size(), plan.steps.size());
    std::map<StepKind, std::set<double>> different;
    for (std::size_t i = 0; i < plan.steps.size(); ++i) different[plan.steps[i].kind].insert(found.spans[i].seconds);
    EXPECT_TRUE(std::any_of(different.begin(), different.end(), [](const auto& d) { return d.second.size() > 1; }));
    EXPECT_GT(allreduces(found), 0.3 * allreduces(price)) << name_of(launch);
    ASSERT_TRUE(found.device);
    EXPECT_EQ(found.device->graph_nodes > 0, launch == Launch::captured);
    EXPECT_EQ(found.device->graph_allreduces, launch == Launch::captured ? 9 : 0);
    EXPECT_GT(found.device->isolated_share, 0);
    EXPECT_GT(found.device->inside_share, 0);
  }
}

TEST(CudaExecutor, OneTokenMeetsTheExpertsThatItChooses) {
  if (devices_here() == 0) GTEST_SKIP() << "no CUDA device";
  const RunConfig config = device_run(host::mla_stack, host::eagle_draft, 1, "f32", {"measure.cuda.generate=false"});
  const RunResult r = run_benchmark(config, *make_cuda_executor(config));
  const auto decode =
      std::find_if(r.phases.begin(), r.phases.end(), [](const PhaseResult& p) { return p.kind == PassKind::decode; });
  ASSERT_NE(decode, r.phases.end());
  EXPECT_THAT(decode->experts_met, testing::Each(static_cast<std::int32_t>(config.stack.mlp.top_k)));
  EXPECT_EQ(decode->experts_met.size(),
            static_cast<std::size_t>(config.stack.layers - config.stack.mlp.leading_dense_layers));
}

TEST(CudaExecutor, GeneratingIsASampleToo) {
  if (devices_here() == 0) GTEST_SKIP() << "no CUDA device";
  const RunConfig config =
      tiny({"parallel.tensor=1", "comm.backend=nccl", "measure.cuda={generate: true, precision: f32}"});
  const RunResult r = run_benchmark(config, *make_cuda_executor(config));
  EXPECT_EQ(r.metrics.at("speculative.tok_s").samples.size(), 3U);
  EXPECT_GT(r.metrics.at("speculative.accept_length").value, 1);
}

TEST(CudaExecutor, WhatCannotRunIsRefused) {
  if (devices_here() == 0) GTEST_SKIP() << "no CUDA device";
  EXPECT_THAT(refusal_of([] { make_cuda_executor(tiny({"measure.cuda.devices=[99]"})); }),
              testing::HasSubstr("measure.cuda.devices: names device 99"));
  EXPECT_THAT(refusal_of([] { make_cuda_executor(tiny({"measure.cuda.generate=true"})); }),
              testing::HasSubstr("exchanges nothing"));
  EXPECT_THAT(refusal_of([] {
                make_cuda_executor(tiny({"workload.batch=100000", "workload.prompt_tokens=100000"}));
              }),
              testing::HasSubstr("workload.batch="));
  const RunConfig cached_as_int8 = tiny({"stack.kv=int8"});
  EXPECT_THAT(refusal_of([&] { run_benchmark(cached_as_int8, *make_cuda_executor(cached_as_int8)); }),
              testing::HasSubstr("int8"));
  if (devices_here() < 8) {
    EXPECT_THAT(refusal_of([] {
                  make_cuda_executor(tiny({"comm.backend=nccl", "machine=8x-h200", "parallel.tensor=8"}));
                }),
                testing::HasSubstr("8 ranks need as many GPUs"));
  }
}

// A rank that throws ends the run with its error, and later calls say so instead of hanging.
TEST(CudaExecutor, ARankThatThrowsStopsAll) {
  const int ranks = std::min(devices_here(), 2);
  if (ranks == 0) GTEST_SKIP() << "no CUDA device";
  const RunConfig config = device_run(host::dense_stack, host::eagle_draft, ranks, "f32");
  Crew crew(config);
  EXPECT_THAT(refusal_of([&] {
                crew.run([&](RankDevice& rank) {
                  if (rank.group().rank() == ranks - 1) throw Error("this rank is broken");
                  rank.group().barrier("a meeting that never comes");
                });
              }),
              testing::HasSubstr("broken"));
  EXPECT_THAT(refusal_of([&] { crew.run([](RankDevice&) {}); }), testing::HasSubstr("failed before"));
}

TEST(CudaExecutor, AWaitHasALimit) {
  if (devices_here() == 0) GTEST_SKIP() << "no CUDA device";
  RunConfig config = device_run(host::dense_stack, host::eagle_draft, 1, "f32");
  config.measure.cuda.wait_limit_s = 0.2;
  Crew crew(config);
  EXPECT_THAT(refusal_of([&] {
                crew.run([&](RankDevice& rank) {
                  // The device waits for a function of the host that takes longer than the limit.
                  check(
                      cudaLaunchHostFunc(
                          rank.stream(), [](void*) { std::this_thread::sleep_for(std::chrono::seconds(1)); }, nullptr),
                      "a function of the host");
                  crew.wait(rank, "something slow");
                });
              }),
              testing::HasSubstr("something slow: not done within measure.cuda.wait_limit_s"));
}

}  // namespace
}  // namespace specstep::cuda
