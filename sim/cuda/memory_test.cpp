// Memory counted before it is allocated: what fits, what is shared, what is refused. Work areas of the attention depend
// on the device, so what counts them needs one; nothing is allocated there.
#include "sim/cuda/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/base/units.h"
#include "model/build_plan.h"
#include "sim/cuda/test_rig.h"

namespace specstep::cuda {
namespace {

constexpr double cache = 50 * mib;

RunConfig kimi(std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"measure.executor=cuda", "comm.backend=delay"});
  return load_run("kimi-k2.5-8x-h200", more);
}

class CudaMemory : public testing::Test {
 protected:
  void SetUp() override {
    if (devices_here() == 0) GTEST_SKIP() << "no CUDA device";
  }
};

TEST_F(CudaMemory, WeightsAreThoseOfThePlanAndTheirPadding) {
  const RunConfig config = kimi();
  double planned = 0;
  for (const Plan& plan : plans_of(config))
    if (plan.shape.kind == PassKind::prefill) planned += plan.weight_memory();
  const double need = memory_need(config, WeightSharing()).weights;
  EXPECT_GT(need, planned * 0.999);
  EXPECT_LT(need, planned * 1.03);
}

TEST_F(CudaMemory, LayersShareWhatDoesNotFit) {
  const RunConfig config = kimi();
  EXPECT_FALSE(fit(config, 139 * gib, cache).shared());
  const double rest = memory_need(config, WeightSharing()).total() - memory_need(config, WeightSharing()).weights;
  const WeightSharing half = fit(config, 40 * gib, cache);
  ASSERT_TRUE(half.shared());
  EXPECT_LE(memory_need(config, half).total(), 40 * gib);
  EXPECT_GT(memory_need(config, half).weights, (40 * gib - rest) * 0.8);  // and not much less than would fit
  // A limit of its own, however much is free.
  const WeightSharing limited = fit(kimi({"measure.cuda.weight_pool_gib=20"}), 139 * gib, cache);
  EXPECT_LE(memory_need(config, limited).weights, 20 * gib);
}

TEST(WeightSharing, ASharedLayerStandsForItsOwnKind) {
  const RunConfig config = kimi();
  const Plan plan = build_plan(config.stack, config.parallel, {PassKind::decode});
  const WeightSharing sharing(0.1);
  std::map<std::pair<std::int32_t, StepKind>, const Weight*> by_name;
  for (const Weight& w : plan.weights) by_name[{w.layer, w.step}] = &w;
  std::size_t shared = 0;
  for (const Weight& w : plan.weights) {
    const std::int32_t layer = sharing.layer_of(plan, w);
    const auto found = by_name.find({layer, w.step});
    ASSERT_NE(found, by_name.end()) << name_of(w.step) << " of layer " << w.layer;
    EXPECT_EQ(found->second->rows, w.rows);
    EXPECT_EQ(found->second->cols, w.cols);
    EXPECT_EQ(found->second->count, w.count);
    EXPECT_EQ(sharing.layer_of(plan, *found->second), layer);  // whoever lends has weights of its own
    shared += layer != w.layer ? 1 : 0;
  }
  EXPECT_GT(shared, plan.weights.size() / 2);
}

TEST_F(CudaMemory, WhatCannotFitIsRefusedWithWhatWould) {
  const std::string small = refusal_of([] { fit(kimi(), 1 * gib, cache); });
  EXPECT_THAT(small, testing::HasSubstr("stack: "));
  EXPECT_THAT(small, testing::HasSubstr("GiB"));
  // One layer of each kind, the draft's among them, takes 2.8 GiB.
  const auto pool = [](const char* gib_of_pool, double cached) {
    return refusal_of(
        [&] { fit(kimi({std::string("measure.cuda.weight_pool_gib=") + gib_of_pool}), 139 * gib, cached); });
  };
  EXPECT_THAT(pool("3", 8 * gib), testing::HasSubstr("weight_pool_gib: 3.00 GiB holds 2.80 GiB of whole layers"));
  EXPECT_THAT(pool("2.5", cache), testing::HasSubstr("does not hold one layer of each kind"));
  EXPECT_THAT(pool("2.5", cache), testing::HasSubstr("at least 2.81"));
  const std::string crowd = refusal_of([] {
    fit(kimi({"workload.batch=512", "workload.prompt_tokens=200000"}), 139 * gib, cache);
  });
  EXPECT_THAT(crowd, testing::HasSubstr("workload: "));
  EXPECT_THAT(crowd, testing::HasSubstr("workload.batch="));
  // Real tokens need every weight: what would fit does, and one layer more does not.
  const auto tokens = [](std::int64_t layers) {
    RunConfig config = kimi({"comm.backend=nccl", "measure.cuda.generate=true"});
    if (layers > 0) config.stack.layers = layers;
    return config;
  };
  const std::string own = refusal_of([&] { fit(tokens(0), 40 * gib, cache); });
  EXPECT_THAT(own, testing::HasSubstr("real tokens"));
  const auto at = own.find("stack.layers=");
  ASSERT_NE(at, std::string::npos) << own;
  const std::int64_t layers = std::stoll(own.substr(at + 13));
  EXPECT_FALSE(fit(tokens(layers), 40 * gib, cache).shared());
  EXPECT_THAT(refusal_of([&] { fit(tokens(layers + 1), 40 * gib, cache); }), testing::HasSubstr("stack"));
}

TEST(Comms, OneRankIsPlayedByBackendsThatExchangeNothing) {
  EXPECT_TRUE(plays_one_rank(kimi()));
  EXPECT_FALSE(plays_one_rank(kimi({"comm.backend=nccl"})));
  EXPECT_THAT(
      refusal_of([] {
        plays_one_rank(load_run("kimi-k2.5-8x-h200", {"comm=[{up_to_kib: 64, backend: delay}, {backend: nccl}]"}));
      }),
      testing::HasSubstr("comm.table"));
}

}  // namespace
}  // namespace specstep::cuda
