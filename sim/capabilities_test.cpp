// The table of capabilities: every row has a source, and runs are told what is not there.
#include "sim/capabilities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/test_configs.h"

namespace specstep {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> notes(const std::string& run, const std::vector<std::string>& sets) {
  return capability_notes(load_run(run, sets));
}

TEST(Capabilities, EveryRowHasASourceAndADate) {
  std::vector<Feature> seen;
  for (const Capability& c : capabilities()) {
    EXPECT_FALSE(c.source.empty() || c.date.empty() || c.note.empty()) << c.carrier;
    EXPECT_FALSE(c.runs_on.empty() && c.not_on.empty()) << c.carrier;
    for (const int sm : c.not_on) EXPECT_EQ(std::count(c.runs_on.begin(), c.runs_on.end(), sm), 0) << c.carrier;
    seen.push_back(c.feature);
  }
  for (std::size_t f = 0; f < EnumNames<Feature>::names().size(); ++f)
    EXPECT_THAT(seen, Contains(static_cast<Feature>(f))) << EnumNames<Feature>::names()[f];
  EXPECT_EQ(capabilities_json().size(), capabilities().size());
}

// The gaps of sm_120 that the seed's operators met, and what came later.
TEST(Capabilities, FusionOnSm120SaysWhyAndSinceWhen) {
  const auto told = notes("seed/baseline-graph128", {"comm.backend=push1", "comm.fusion=rmsnorm"});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_THAT(told[0], HasSubstr("sgl-project/sglang#15650"));
  EXPECT_THAT(told[0], HasSubstr("pcie_ipc (since 2026-08)"));
  EXPECT_THAT(told[0], HasSubstr("specstep's kernels, which no engine's gate holds back"));
  // On Hopper the engine's own fusion runs.
  EXPECT_TRUE(notes("kimi-k2.5-8x-h200", {"comm.backend=push1", "comm.fusion=rmsnorm"}).empty());
}

TEST(Capabilities, TheEnginesOwnAllreduceOnPcie) {
  for (const char* engine : {"vllm", "sglang"}) {
    const auto told =
        notes("seed/baseline-graph128", {"comm.backend=engine-default", std::string("comm.engine=") + engine});
    EXPECT_THAT(told, Contains(HasSubstr("is not used on 8 GPUs over PCIe"))) << engine;
  }
  EXPECT_TRUE(notes("kimi-k2.5-8x-h200", {"comm.backend=engine-default"}).empty());
  EXPECT_TRUE(notes("seed/baseline-graph128", {}).empty());
}

TEST(Capabilities, ExpertExchangeOnSm120) {
  const std::vector<std::string> split{"parallel={tensor: 8, expert: 8, attention_data: 8}", "workload.batch=8"};
  EXPECT_THAT(notes("seed/baseline-graph128", split), Contains(HasSubstr("DeepEP does not run there")));
  EXPECT_TRUE(notes("kimi-k2.5-8x-h200", split).empty());
}

TEST(Capabilities, NvlsOnSm120IsRefusedWithTheReason) {
  const std::string said = refusal_of([] { load_run("seed/baseline-graph128", {"comm.backend=nvls"}); });
  EXPECT_THAT(said, HasSubstr("comm.backend: nvls does not exist on sm_120: sm_120 has no NVLink"));
  EXPECT_THAT(said, HasSubstr("list --capabilities"));
  // On Hopper it is the fabric that decides.
  EXPECT_THAT(refusal_of([] { load_run("kimi-k2.5-8x-h200", {"comm.backend=nvls"}); }),
              Not(HasSubstr("does not exist")));
}

}  // namespace
}  // namespace specstep
