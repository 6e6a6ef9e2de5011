// Plans of published models: counts, bytes and memory against figures of their configs.
#include "model/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "model/base/config_io.h"
#include "model/base/units.h"
#include "model/build_plan.h"

namespace specstep {
namespace {

const std::filesystem::path configs = std::filesystem::path(SPECSTEP_SOURCE_DIR) / "configs";
StackSpec stack(const std::string& name) { return load_config<StackSpec>(configs / "stacks" / (name + ".yaml")); }
DraftSpec draft(const std::string& name) { return load_config<DraftSpec>(configs / "drafts" / (name + ".yaml")); }

const ParallelLayout tp8{.tensor = 8};
PassShape decode(std::int64_t sequences) { return {.kind = PassKind::decode, .sequences = sequences, .context = 100}; }

std::map<std::string, std::pair<std::int64_t, std::int64_t>> collectives(const Plan& plan) {
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> out;
  for (const CollectiveCount& c : count_collectives(plan)) out[c.what] = {c.count, c.bytes};
  return out;
}
using Counts = std::map<std::string, std::pair<std::int64_t, std::int64_t>>;

TEST(Plan, KimiDecodeHas122AllreducesInItsLayers) {
  const Plan plan = build_plan(stack("kimi-k2.5"), tp8, decode(1));
  check_well_formed(plan);
  EXPECT_EQ(collectives(plan), (Counts{{"allreduce in layers", {122, 14336}},
                                       {"allreduce of the embedding", {1, 14336}},
                                       {"all-gather of the logits", {1, 40960}}}));
}

TEST(Plan, KimiVerifyOfTwoDraftsCarriesThreeTokens) {
  const Plan plan =
      build_plan(stack("kimi-k2.5"), tp8, {.kind = PassKind::verify, .sequences = 1, .tokens_each = 3, .context = 100});
  EXPECT_EQ(collectives(plan), (Counts{{"allreduce in layers", {122, 43008}},
                                       {"allreduce of the embedding", {1, 43008}},
                                       {"all-gather of the logits", {1, 122880}}}));
}

TEST(Plan, OuterCollectivesCanBeSwitchedOff) {
  const Plan plan =
      build_plan(stack("kimi-k2.5"), tp8, decode(1), {.embedding_allreduce = false, .logits_gather = false});
  EXPECT_EQ(collectives(plan), (Counts{{"allreduce in layers", {122, 14336}}}));
}

PlanOptions fused() {
  PlanOptions options;
  options.fuses_norm = [](const AllReduce&) { return true; };
  return options;
}

TEST(Plan, NormsFuseIntoTheAllreducesBeforeThem) {
  const StackSpec kimi = stack("kimi-k2.5");
  const Plan apart = build_plan(kimi, tp8, decode(1));
  const Plan plan = build_plan(kimi, tp8, decode(1), fused());
  check_well_formed(plan);
  EXPECT_EQ(collectives(plan), (Counts{{"allreduce in layers, fused with rmsnorm", {122, 14336}},
                                       {"allreduce of the embedding", {1, 14336}},
                                       {"all-gather of the logits", {1, 40960}}}));
  EXPECT_EQ(apart.steps.size() - plan.steps.size(), 122u);
  const Cost before = apart.total(), after = plan.total();
  EXPECT_EQ(before.nodes - after.nodes, 122);
  EXPECT_EQ(before.activation_bytes - after.activation_bytes, 122 * 14336);
  EXPECT_EQ(before.weight_bytes, after.weight_bytes);
  EXPECT_EQ(before.flops, after.flops);
  EXPECT_EQ(before.comm_bytes, after.comm_bytes);
}

TEST(Plan, AFusedStepHasTheAllreducesLabelAndTheNormsGain) {
  const Plan plan = build_plan(stack("tiny"), {.tensor = 2}, decode(1), fused());
  std::vector<std::string> found;
  for (const Step& step : plan.steps) {
    if (!std::holds_alternative<AllReduceNorm>(step.op)) continue;
    const Weight& gain = plan.weights.at(static_cast<std::size_t>(step.weight));
    found.push_back(step.label() + ", gain of " + std::string(name_of(gain.step)));
    EXPECT_EQ(gain.layer, step.kind == StepKind::attention_allreduce ? step.layer
                          : step.layer == 3                          ? no_index
                                                                     : step.layer + 1);
    EXPECT_EQ(plan.buffers.at(static_cast<std::size_t>(step.out)).kind, BufferKind::normed);
  }
  ASSERT_EQ(found.size(), 8u);
  EXPECT_EQ(found[0], "layer 0 attention_allreduce, gain of mlp_norm");
  EXPECT_EQ(found[1], "layer 0 mlp_allreduce, gain of attention_norm");
  EXPECT_EQ(found[7], "layer 3 mlp_allreduce, gain of final_norm");
}

TEST(Plan, OnlyNormsOfTheSameRowsFuse) {
  const StackSpec kimi = stack("kimi-k2.5");
  // The last norm of a prompt takes only the rows whose logits are needed.
  auto counts = collectives(
      build_plan(kimi, tp8, {.kind = PassKind::prefill, .sequences = 1, .tokens_each = 30, .context = 0}, fused()));
  EXPECT_EQ(counts.at("allreduce in layers, fused with rmsnorm").first, 121);
  EXPECT_EQ(counts.at("allreduce in layers").first, 1);
  // Attention groups move tokens behind the mlp instead of summing them.
  counts = collectives(build_plan(kimi, {.tensor = 8, .expert = 1, .attention_data = 2}, decode(2), fused()));
  EXPECT_EQ(counts.at("allreduce in layers, fused with rmsnorm").first, 61);
  EXPECT_EQ(counts.count("allreduce in layers"), 0u);
  counts =
      collectives(build_draft_plan(draft("kimi-k2.5-eagle3"), tp8, {.kind = PassKind::draft, .context = 9}, fused()));
  EXPECT_EQ(counts.at("allreduce in layers, fused with rmsnorm").first, 2);
  EXPECT_TRUE(collectives(build_plan(stack("tiny"), {.tensor = 1}, decode(1), fused())).empty());
}

TEST(Plan, EachMessageIsAskedForWhetherItFuses) {
  PlanOptions small;
  small.fuses_norm = [](const AllReduce& op) { return op.bytes() <= 14336; };
  const StackSpec kimi = stack("kimi-k2.5");
  EXPECT_EQ(collectives(build_plan(kimi, tp8, decode(1), small)).count("allreduce in layers"), 0u);
  EXPECT_EQ(plan_csv(build_plan(kimi, tp8, decode(2), small)), plan_csv(build_plan(kimi, tp8, decode(2))));
}

TEST(Plan, TwoAllreducesALayerInEveryModel) {
  EXPECT_EQ(collectives(build_plan(stack("llama-3.3-70b"), tp8, decode(1)))["allreduce in layers"],
            (std::pair<std::int64_t, std::int64_t>{160, 16384}));
  EXPECT_EQ(collectives(build_plan(stack("gpt-oss-120b"), tp8, decode(1)))["allreduce in layers"].first, 72);
  EXPECT_TRUE(collectives(build_plan(stack("tiny"), {.tensor = 1}, decode(1))).empty());
}

// Bytes a GPU reads for its weights in one pass, GB, from the shapes in the model's config (independent routing).
TEST(Plan, KimiWeightBytesByTokens) {
  const std::pair<std::int64_t, double> expected[]{{1, 6.03},  {2, 7.48},  {3, 8.91},  {4, 10.3},   {8, 15.6},
                                                   {16, 24.9}, {32, 39.5}, {64, 57.3}, {128, 71.1}, {512, 75.9}};
  const StackSpec kimi = stack("kimi-k2.5");
  for (const auto& [sequences, gb] : expected)
    EXPECT_NEAR(build_plan(kimi, tp8, decode(sequences)).total().weight_bytes / 1e9, gb, gb * 0.01) << sequences;
}

TEST(Plan, KimiMemoryPerGpu) {
  const StackSpec kimi = stack("kimi-k2.5");
  const double weights = weight_memory(kimi, tp8) / gib;  // 70.95 from shapes, 73.58 logged on one machine
  EXPECT_GT(weights, 70.9);
  EXPECT_LT(weights, 73.6);
  EXPECT_DOUBLE_EQ(kv_footprint(kimi, tp8).bytes_per_token, 70272);
  EXPECT_DOUBLE_EQ(kv_footprint(kimi, {.tensor = 1}).bytes_per_token, 70272);  // the latent is not split
}

TEST(Plan, KvOfOtherModels) {
  EXPECT_DOUBLE_EQ(kv_footprint(stack("llama-3.3-70b"), tp8).bytes_per_token, 40960);
  const KvFootprint oss = kv_footprint(stack("gpt-oss-120b"), {.tensor = 1});
  EXPECT_DOUBLE_EQ(oss.bytes_per_token, 18.0 * 2 * 8 * 64 * 2);           // 18 full layers
  EXPECT_DOUBLE_EQ(oss.bytes_per_sequence, 18.0 * 2 * 8 * 64 * 2 * 128);  // 18 windows of 128
}

// Public case F09: the plain draft's cache splits over ranks, the latent one does not.
TEST(Plan, DraftCacheAndAllreduces) {
  EXPECT_DOUBLE_EQ(kv_footprint(draft("kimi-k2.5-eagle3"), {.tensor = 1}).bytes_per_token, 32768);
  EXPECT_DOUBLE_EQ(kv_footprint(draft("kimi-k2.5-eagle3"), tp8).bytes_per_token, 4096);
  EXPECT_DOUBLE_EQ(kv_footprint(draft("kimi-k2.5-eagle3-mla"), tp8).bytes_per_token, 1152);
  const Plan step = build_draft_plan(draft("kimi-k2.5-eagle3"), tp8, {.kind = PassKind::draft, .context = 100});
  check_well_formed(step);
  const auto counts = collectives(step);
  EXPECT_EQ(counts.at("allreduce in layers").first, 2);
  EXPECT_EQ(counts.at("allreduce of the embedding").first, 1);
  EXPECT_EQ(counts.at("all-gather of the logits").first, 1);
  // About 2.0 B parameters less the fusion matrix (154 M) in bf16 over 8 ranks: 462 MB.
  EXPECT_NEAR(step.total().weight_bytes / 1e6, 462, 5);
}

TEST(Plan, FusionRunsOnlyWhereFeaturesOfTheTargetCome) {
  const auto fuses = [](PassKind kind) {
    const Plan plan = build_draft_plan(draft("kimi-k2.5-eagle3"), tp8, {.kind = kind, .tokens_each = 3, .context = 9});
    return std::any_of(plan.steps.begin(), plan.steps.end(),
                       [](const Step& s) { return s.kind == StepKind::fuse_features; });
  };
  EXPECT_TRUE(fuses(PassKind::extend));
  EXPECT_FALSE(fuses(PassKind::draft));
}

TEST(Plan, DraftOnOneRankHasNoCollectives) {
  const ParallelLayout layout{.tensor = 8, .draft_tensor = 1};
  EXPECT_TRUE(collectives(build_draft_plan(draft("kimi-k2.5-eagle3"), layout, {.kind = PassKind::draft, .context = 9}))
                  .empty());
}

TEST(Plan, SequencesInAttentionGroupsMoveTokensInsteadOfSumming) {
  const ParallelLayout whole{.tensor = 8, .expert = 8, .attention_data = 8};
  const Plan plan = build_plan(stack("kimi-k2.5"), whole, decode(64));
  check_well_formed(plan);
  const auto counts = collectives(plan);
  EXPECT_EQ(counts.at("all-to-all of tokens to experts"),
            (std::pair<std::int64_t, std::int64_t>{60, 8 * 8 * 7168 * 2}));
  EXPECT_EQ(counts.at("all-to-all of tokens back").first, 60);
  EXPECT_EQ(counts.count("allreduce in layers"), 0u);  // each rank holds whole heads and whole experts
  EXPECT_EQ(counts.count("allreduce of the embedding"), 0u);
}

TEST(Plan, ExpertParallelKeepsTheTotalOfWeights) {
  const StackSpec kimi = stack("kimi-k2.5");
  const double split = build_plan(kimi, tp8, decode(1)).weight_memory();
  const double grouped = build_plan(kimi, {.tensor = 8, .expert = 8}, decode(1)).weight_memory();
  EXPECT_NEAR(split, grouped, split * 1e-9);
}

// A pass goes on when the slowest rank is done: eight experts of one token fall on eight ranks with more than one on
// some of them: 2.573 on the fullest, by 20,000 draws of 8 out of 384.
TEST(Plan, ExpertParallelIsPricedOnTheFullestRank) {
  const Plan plan = build_plan(stack("kimi-k2.5"), {.tensor = 8, .expert = 8}, decode(1));
  for (const Step& s : plan.steps)
    if (const auto* experts = std::get_if<GroupedGemm>(&s.op)) {
      EXPECT_NEAR(experts->experts_met, 2.573, 0.01);
      EXPECT_NEAR(experts->rows, experts->experts_met, 1e-9) << "one row each";
    }
  const Plan full = build_plan(stack("kimi-k2.5"), {.tensor = 8, .expert = 8}, decode(4096));
  for (const Step& s : full.steps)
    if (const auto* experts = std::get_if<GroupedGemm>(&s.op)) {
      EXPECT_NEAR(experts->experts_met, 48, 1e-6);
      EXPECT_NEAR(experts->rows, 4096, 1e-3);
    }
}

/// Sums of one kind of work over the steps.
double sum_of(const Plan& plan, double Cost::*what) { return plan.total().*what; }

// Padding fills rows up: matrices and messages are those of all rows, the cache is that of the real sequences.
TEST(Plan, PaddingHasRowsButNoCache) {
  for (const std::string name : {"kimi-k2.5", "llama-3.3-70b", "gpt-oss-120b"})
    for (const std::int64_t groups : {1, 2})
      for (const PassKind kind : {PassKind::decode, PassKind::verify}) {
        const StackSpec model = stack(name);
        const ParallelLayout layout{.tensor = 8, .attention_data = groups};
        const std::int64_t each = kind == PassKind::verify ? 4 : 1;
        const PassShape real{.kind = kind, .sequences = 18, .tokens_each = each, .context = 5000};
        PassShape full = real;
        full.sequences = 24;
        PassShape padded = full;
        padded.padding = 6;
        const Plan as_real = build_plan(model, layout, real);
        const Plan as_padded = build_plan(model, layout, padded);
        const Plan as_full = build_plan(model, layout, full);
        EXPECT_DOUBLE_EQ(sum_of(as_padded, &Cost::kv_bytes), sum_of(as_real, &Cost::kv_bytes)) << name;
        EXPECT_DOUBLE_EQ(sum_of(as_padded, &Cost::comm_bytes), sum_of(as_full, &Cost::comm_bytes)) << name;
        EXPECT_DOUBLE_EQ(sum_of(as_padded, &Cost::activation_bytes), sum_of(as_full, &Cost::activation_bytes)) << name;
        EXPECT_GT(sum_of(as_full, &Cost::kv_bytes), sum_of(as_real, &Cost::kv_bytes)) << name;
        // Of weights no more than those of all rows, and of one token's experts beyond those of the real rows.
        EXPECT_LE(sum_of(as_padded, &Cost::weight_bytes), sum_of(as_full, &Cost::weight_bytes)) << name;
        EXPECT_GE(sum_of(as_padded, &Cost::weight_bytes), sum_of(as_real, &Cost::weight_bytes)) << name;
      }
}

TEST(Plan, PaddingOfSparseAndLinearLayersHasNoCache) {
  ReadOptions options;
  options.overrides.push_back(
      parse_override("pattern=[{attention: sparse, sparse: {top_k: 64, index_heads: 4, index_dim: 16}}, {attention: "
                     "linear, linear: {key_heads: 8, key_dim: 32, value_heads: 16, value_dim: 32, state_bytes: "
                     "65536}}]"));
  const auto hybrid = read_config<StackSpec>(load_with_base(configs / "stacks" / "tiny.yaml"), options);
  PassShape padded = decode(8);
  padded.padding = 3;
  EXPECT_DOUBLE_EQ(sum_of(build_plan(hybrid, {.tensor = 2}, padded), &Cost::kv_bytes),
                   sum_of(build_plan(hybrid, {.tensor = 2}, decode(5)), &Cost::kv_bytes));
}

TEST(Plan, PaddingIsShown) {
  PassShape padded = decode(8);
  padded.padding = 3;
  const Plan plan = build_plan(stack("tiny"), {.tensor = 2}, padded);
  EXPECT_EQ(plan_json(plan).at("padding"), 3);
  EXPECT_THAT(plan_text(plan), testing::HasSubstr("8 sequences (3 of them padding) x 1 token"));
  EXPECT_THAT(plan_text(plan), testing::HasSubstr("nothing cached for 3 of them"));
  EXPECT_EQ(plan_json(build_plan(stack("tiny"), {.tensor = 2}, decode(8))).at("padding"), 0);
}

TEST(Plan, SplittingDividesWorkExactly) {
  const StackSpec llama = stack("llama-3.3-70b");
  const auto gemm_bytes = [&](std::int64_t ranks) {
    double sum = 0;
    const Plan plan = build_plan(llama, {.tensor = ranks}, decode(1));
    for (const Step& s : plan.steps)
      if (std::holds_alternative<Gemm>(s.op)) sum += cost_of(s.op).weight_bytes;
    return sum;
  };
  for (const std::int64_t ranks : {2, 4, 8})
    EXPECT_NEAR(gemm_bytes(1), gemm_bytes(ranks) * static_cast<double>(ranks), 1);
}

TEST(Plan, HybridLayersHaveStatesAndTheSameAllreduces) {
  ReadOptions options;
  options.overrides.push_back(
      parse_override("pattern=[{attention: linear, linear: {key_heads: 8, key_dim: 32, value_heads: 16, value_dim: 32, "
                     "state_bytes: 65536}}, full]"));
  const auto hybrid = read_config<StackSpec>(load_with_base(configs / "stacks" / "tiny.yaml"), options);
  const Plan plan = build_plan(hybrid, {.tensor = 2}, decode(1));
  check_well_formed(plan);
  EXPECT_EQ(collectives(plan).at("allreduce in layers").first, 8);
  EXPECT_DOUBLE_EQ(kv_footprint(hybrid, {.tensor = 2}).bytes_per_sequence, 2 * 65536 / 2);
  EXPECT_DOUBLE_EQ(kv_footprint(hybrid, {.tensor = 2}).bytes_per_token, 2.0 * 2 * 4 * 32 * 2);
}

TEST(Plan, SparseLayersReadAtMostTheirTopK) {
  ReadOptions options;
  options.overrides.push_back(
      parse_override("pattern=[{attention: sparse, sparse: {top_k: 64, index_heads: 4, index_dim: 16}}]"));
  const auto sparse = read_config<StackSpec>(load_with_base(configs / "stacks" / "tiny.yaml"), options);
  const Plan plan = build_plan(sparse, {.tensor = 1}, {.kind = PassKind::decode, .context = 100000});
  check_well_formed(plan);
  for (const Step& s : plan.steps) {
    const double kv = cost_of(s.op).kv_bytes;
    if (s.kind == StepKind::attention) {
      EXPECT_DOUBLE_EQ(kv, 64.0 * 2 * 8 * 32 * 2);
    } else if (s.kind == StepKind::index) {
      EXPECT_DOUBLE_EQ(kv, 100001.0 * 16);
    }
  }
}

/// Compares with a file of model/golden; SPECSTEP_UPDATE_GOLDEN=1 rewrites it.
void expect_golden(const std::string& name, const std::string& text) {
  const auto path = std::filesystem::path(SPECSTEP_SOURCE_DIR) / "model" / "golden" / name;
  if (std::getenv("SPECSTEP_UPDATE_GOLDEN")) {
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::ifstream in(path);
  std::stringstream have;
  have << in.rdbuf();
  EXPECT_EQ(have.str(), text) << "golden " << name << " differs; SPECSTEP_UPDATE_GOLDEN=1 rewrites it";
}

TEST(PlanGolden, Kimi) {
  expect_golden("kimi-k2.5-decode.plan", plan_text(build_plan(stack("kimi-k2.5"), tp8, decode(1))));
}
TEST(PlanGolden, KimiDraftExtend) {
  expect_golden("kimi-k2.5-eagle3-extend.plan",
                plan_text(build_draft_plan(draft("kimi-k2.5-eagle3"), tp8,
                                           {.kind = PassKind::extend, .tokens_each = 3, .context = 100})));
}
TEST(PlanGolden, GptOss) {
  expect_golden("gpt-oss-120b-decode.plan", plan_text(build_plan(stack("gpt-oss-120b"), tp8, decode(4))));
}
TEST(PlanGolden, Tiny) {
  expect_golden("tiny-decode.plan", plan_text(build_plan(stack("tiny"), {.tensor = 2}, decode(1)), true));
}

TEST(PlanGolden, TinyFused) {
  expect_golden("tiny-decode-fused.plan", plan_text(build_plan(stack("tiny"), {.tensor = 2}, decode(1), fused())));
}

TEST(Plan, JsonHasEveryStepAndTheTotals) {
  const Plan plan = build_plan(stack("tiny"), {.tensor = 2}, decode(1));
  const auto json = plan_json(plan);
  EXPECT_EQ(json["schema"], "specstep.plan/1");
  EXPECT_EQ(json["steps"].size(), plan.steps.size());
  EXPECT_EQ(json["totals"]["weight_bytes"], plan.total().weight_bytes);
  const auto together = plan_json(build_plan(stack("tiny"), {.tensor = 2}, decode(1), fused()));
  const auto step = std::find_if(together["steps"].begin(), together["steps"].end(),
                                 [](const auto& s) { return s["op"] == "allreduce_norm"; });
  ASSERT_NE(step, together["steps"].end());
  EXPECT_EQ((*step)["kind"], "attention_allreduce");
  EXPECT_EQ((*step)["shape"], "512 B over 2 ranks, then rmsnorm [1, 256] + residual");
  EXPECT_EQ((*step)["comm_bytes"], 512);
  EXPECT_EQ((*step)["activation_bytes"], 3 * 512);
}

}  // namespace
}  // namespace specstep
