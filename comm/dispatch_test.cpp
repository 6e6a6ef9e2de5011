// Engine rules against the gates that their sources state.
#include "comm/dispatch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/test_fabrics.h"

namespace specstep::comm {
namespace {

using testing::HasSubstr;

std::string picks(const std::string& engine, int ranks, bool nvlink, std::int64_t bytes, int capability = 90) {
  return dispatch({engine, ranks, nvlink, capability, bytes}).backend;
}

// Which of (ranks, full NVLink) the kernel launches for: the gate table of flashinfer-ai/flashinfer pull 4393.
TEST(Dispatch, TheKernelLaunchesNothingWithoutNvlinkAboveTwoRanks) {
  struct Gate {
    int ranks;
    bool nvlink;
    bool launches;
  };
  for (const Gate& g : {Gate{2, false, true}, Gate{4, false, false}, Gate{8, false, false}, Gate{4, true, true},
                        Gate{8, true, true}, Gate{6, true, true}})
    EXPECT_EQ(!picks("vllm-ungated", g.ranks, g.nvlink, 14336).empty(), g.launches) << g.ranks << g.nvlink;
}

TEST(Dispatch, LaunchingNothingIsAnErrorThatExplainsItself) {
  const Topology t = fabric("switch_4p4_microchip");
  const std::string message = refusal_of([&] { engine_default("vllm-ungated", t, {.ranks = 8, .bytes = 14336}); });
  EXPECT_THAT(message, HasSubstr("launches nothing for 8 ranks without NVLink"));
  EXPECT_THAT(message, HasSubstr("custom_all_reduce.cuh"));
  EXPECT_THAT(message, HasSubstr("nccl"));
}

TEST(Dispatch, Vllm) {
  EXPECT_EQ(picks("vllm", 2, false, 14336), "pull1");
  EXPECT_EQ(picks("vllm", 8, false, 14336), "nccl");
  EXPECT_EQ(picks("vllm", 8, true, 256 * 1024 - 16), "pull1");
  EXPECT_EQ(picks("vllm", 8, true, 256 * 1024), "rsag");
  EXPECT_EQ(picks("vllm", 4, true, 512 * 1024 - 16), "pull1");
  EXPECT_EQ(picks("vllm", 4, true, 512 * 1024), "rsag");
  EXPECT_EQ(picks("vllm", 8, true, 8 << 20), "nccl");
  EXPECT_EQ(picks("vllm", 3, true, 14336), "nccl");
  EXPECT_EQ(picks("vllm", 8, true, 14338), "nccl");
}

TEST(Dispatch, Sglang) {
  EXPECT_EQ(picks("sglang", 8, true, 160 * 1024), "push1");
  EXPECT_EQ(picks("sglang", 8, true, 160 * 1024 + 16), "rsag");
  EXPECT_EQ(picks("sglang", 8, true, 720 * 1024, 100), "push1");
  EXPECT_EQ(picks("sglang", 8, false, 14336), "nccl");
  EXPECT_EQ(picks("sglang", 2, true, 4 << 20), "pull1");
  EXPECT_EQ(picks("sglang-1stage", 8, false, 14336), "pull1");
}

TEST(Dispatch, UnknownEngineNamesThoseThereAre) {
  EXPECT_THAT(refusal_of([] { picks("vlm", 8, true, 64); }), HasSubstr("did you mean 'vllm'?"));
  for (const DispatchRule& rule : dispatch_rules()) EXPECT_FALSE(rule.source.empty());
}

TEST(Choose, OnlyAutoChooses) {
  Pricer healthy(fabric("switch_4p4_microchip"));
  const Call call{.ranks = 8, .bytes = 14336};
  EXPECT_EQ(choose("pull1", "sglang", healthy, call).used, "pull1");
  EXPECT_EQ(choose("engine-default", "sglang", healthy, call).used, "nccl");
  EXPECT_EQ(choose("engine-default", "sglang-1stage", healthy, call).used, "pull1");
  const Choice best = choose("auto", "sglang", healthy, call);
  EXPECT_EQ(best.requested, "auto");
  EXPECT_TRUE(gives_sum(best.used));
  EXPECT_LE(healthy.price(best.used, call).seconds, healthy.price("pull1", call).seconds);
  EXPECT_THAT(refusal_of([&] { choose("nvls", "sglang", healthy, call); }), HasSubstr("multicast"));
}

}  // namespace
}  // namespace specstep::comm
