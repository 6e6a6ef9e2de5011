// Shipped stacks against the config.json they come from, and against published counts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "model/base/config_io.h"
#include "model/build_plan.h"
#include "model/import/test_import.h"

namespace specstep {
namespace {

const std::filesystem::path configs = std::filesystem::path(SPECSTEP_SOURCE_DIR) / "configs";
StackSpec shipped(const std::string& name) { return load_config<StackSpec>(configs / "stacks" / (name + ".yaml")); }
DraftSpec shipped_draft(const std::string& name) {
  return load_config<DraftSpec>(configs / "drafts" / (name + ".yaml"));
}
constexpr ParallelLayout tp8{.tensor = 8};

class Imported : public ::testing::TestWithParam<const char*> {};

// What a config.json cannot know is taken from the shipped stack: how it is called, which weights no text pass reads,
// and how much the experts of neighbouring tokens overlap.
TEST_P(Imported, EqualsTheShippedStack) {
  const StackSpec theirs = shipped(GetParam());
  StackSpec ours = import_stack(GetParam());
  ours.name = theirs.name;
  ours.other_weights = theirs.other_weights;
  ours.vision = theirs.vision;
  ours.mlp.chain_overlap = theirs.mlp.chain_overlap;
  EXPECT_DOUBLE_EQ(weight_memory(ours, tp8), weight_memory(theirs, tp8));
  EXPECT_DOUBLE_EQ(kv_footprint(ours, tp8).bytes_per_token, kv_footprint(theirs, tp8).bytes_per_token);
  EXPECT_DOUBLE_EQ(kv_footprint(ours, tp8).bytes_per_sequence, kv_footprint(theirs, tp8).bytes_per_sequence);
  const PassShape verify{.kind = PassKind::verify, .sequences = 2, .tokens_each = 3, .context = 1000};
  EXPECT_EQ(plan_text(build_plan(ours, tp8, verify)), plan_text(build_plan(theirs, tp8, verify)));
  EXPECT_TRUE(plan_json(build_plan(ours, tp8, verify)) == plan_json(build_plan(theirs, tp8, verify)));
  ours.source = theirs.source;
  EXPECT_EQ(dump_config(ours), dump_config(theirs));
}
INSTANTIATE_TEST_SUITE_P(Stacks, Imported,
                         ::testing::Values("deepseek-v3", "glm-5", "gpt-oss-120b", "kimi-k2.5", "minimax-m2.5",
                                           "qwen3-235b-a22b", "qwen3-32b"));

TEST(ShippedStacks, AllreducesInLayers) {
  const std::pair<const char*, std::int64_t> expected[]{
      {"kimi-k2.5", 122}, {"deepseek-v3", 122},  {"qwen3-235b-a22b", 188}, {"qwen3-32b", 128},
      {"glm-5", 156},     {"minimax-m2.5", 124}, {"gpt-oss-120b", 72},     {"llama-3.3-70b", 160}};
  for (const auto& [name, count] : expected) {
    const Plan plan = build_plan(shipped(name), tp8, {.kind = PassKind::decode, .context = 100});
    check_well_formed(plan);
    for (const CollectiveCount& c : count_collectives(plan))
      if (c.what == "allreduce in layers") {
        EXPECT_EQ(c.count, count) << name;
      }
  }
}

// Parameters as published on the model pages, in 10^9: bf16 stacks hold two bytes of each.
TEST(ShippedStacks, ParametersArePublishedOnes) {
  const auto billions = [](const char* name) {
    StackSpec s = shipped(name);
    s.weights = {};
    return weight_memory(s, {.tensor = 1}) / 2 / 1e9;
  };
  EXPECT_NEAR(billions("deepseek-v3"), 671, 1);
  EXPECT_NEAR(billions("qwen3-235b-a22b"), 235, 0.5);
  EXPECT_NEAR(billions("qwen3-32b"), 32.8, 0.1);
  EXPECT_NEAR(billions("glm-5"), 744, 4);
  EXPECT_NEAR(billions("minimax-m2.5"), 229, 1.5);
}

TEST(ShippedDrafts, ImportedHeadsEqualThem) {
  for (const auto& [ours, theirs] : {std::pair{"deepseek_v3_eagle3", "deepseek-v3-eagle3"},
                                     {"gpt_oss_120b_eagle3", "gpt-oss-120b-eagle3"},
                                     {"minimax_m25_eagle3", "minimax-m2.5-eagle3"}}) {
    DraftSpec imported = import_draft(ours);
    const DraftSpec file = shipped_draft(theirs);
    imported.name = file.name;
    imported.source = file.source;
    EXPECT_EQ(dump_config(imported), dump_config(file)) << ours;
  }
}

TEST(ShippedDrafts, AnMtpLayerIsOneLayerOfTheTargetAndAJoin) {
  // 256 + 1 experts of 3 x 7168 x 2048, attention 187.1 M, router 1.8 M, the join of 2 x 7168 rows 102.8 M: 11.6 B.
  DraftSpec mtp = shipped_draft("deepseek-v3-mtp");
  mtp.weights = {};
  EXPECT_NEAR(weight_memory(mtp, {.tensor = 1}) / 2 / 1e9, 11.6, 0.05);
}

}  // namespace
}  // namespace specstep
