// Decode context parallel: which steps it adds, their counts and bytes against hand-written arithmetic.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "model/base/config_io.h"
#include "model/build_plan.h"

namespace specstep {
namespace {

const std::filesystem::path configs = std::filesystem::path(SPECSTEP_SOURCE_DIR) / "configs";
StackSpec stack(const std::string& name) { return load_config<StackSpec>(configs / "stacks" / (name + ".yaml")); }
DraftSpec draft(const std::string& name) { return load_config<DraftSpec>(configs / "drafts" / (name + ".yaml")); }

using Counts = std::map<std::string, std::pair<std::int64_t, std::int64_t>>;
Counts collectives(const Plan& plan) {
  Counts out;
  for (const CollectiveCount& c : count_collectives(plan)) out[c.what] = {c.count, c.bytes};
  return out;
}

PassShape pass(PassKind kind, std::int64_t sequences, std::int64_t tokens_each, std::int64_t context) {
  return {.kind = kind, .sequences = sequences, .tokens_each = tokens_each, .context = context};
}

const Attention& attention_of(const Plan& plan) {
  for (const Step& step : plan.steps)
    if (const auto* a = std::get_if<Attention>(&step.op)) return *a;
  throw std::logic_error("no attention");
}

// Kimi-K2.5, 8 ranks, 64 heads: 8 heads of 576 queries each and 512 values each on a rank.
TEST(Context, MlaDecodeExchangesQueriesSumsAndParts) {
  const Plan plan = build_plan(stack("kimi-k2.5"), {.tensor = 8, .context = 4}, pass(PassKind::decode, 2, 1, 1000));
  check_well_formed(plan);
  EXPECT_EQ(collectives(plan), (Counts{{"allreduce in layers", {122, 2 * 14336}},
                                       {"allreduce of the embedding", {1, 2 * 14336}},
                                       {"all-gather of the logits", {1, 2 * 40960}},
                                       {"all-gather of queries, context group", {61, 2 * 8 * 576 * 2}},
                                       {"all-gather of softmax sums, context group", {61, 2 * 32 * 4}},
                                       {"reduce-scatter of attention, context group", {61, 2 * 32 * 512 * 2}}}));
  const Attention& a = attention_of(plan);
  EXPECT_EQ(a.heads, 32);
  EXPECT_EQ(a.context_ranks, 4);
  EXPECT_DOUBLE_EQ(cost_of(a).kv_bytes, 2.0 * 1001 * 1152 / 4);
  for (const Step& step : plan.steps) {
    const auto* gather = std::get_if<AllGather>(&step.op);
    if (gather && step.kind != StepKind::logits_gather) {
      EXPECT_EQ(gather->ranks, 4);
    }
    if (const auto* rope = std::get_if<Rope>(&step.op)) {
      EXPECT_DOUBLE_EQ(rope->append_bytes, 1152.0 / 4);
    }
    if (step.kind == StepKind::absorb_v) {
      EXPECT_EQ(std::get<Gemm>(step.op).batches, 8);  // each rank goes on with its own heads
    }
  }
}

TEST(Context, AVerifyPassExchangesAllItsTokens) {
  const Plan plan = build_plan(stack("kimi-k2.5"), {.tensor = 8, .context = 8}, pass(PassKind::verify, 3, 4, 1000));
  const Counts counts = collectives(plan);
  EXPECT_EQ(counts.at("all-gather of queries, context group"),
            std::make_pair(std::int64_t{61}, std::int64_t{12 * 8 * 576 * 2}));
  EXPECT_EQ(counts.at("reduce-scatter of attention, context group"),
            std::make_pair(std::int64_t{61}, std::int64_t{12 * 64 * 512 * 2}));
  EXPECT_EQ(attention_of(plan).heads, 64);
}

// Qwen3-235B: 64 heads, 4 key/value heads; on 8 ranks two ranks hold the same head.
TEST(Context, GqaSplitsWhereRanksHoldTheSameHead) {
  const StackSpec qwen = stack("qwen3-235b-a22b");
  const Plan plan = build_plan(qwen, {.tensor = 8, .context = 2}, pass(PassKind::decode, 1, 1, 1000));
  check_well_formed(plan);
  const Counts counts = collectives(plan);
  EXPECT_EQ(counts.at("all-gather of queries, context group"),
            std::make_pair(std::int64_t{94}, std::int64_t{8 * 128 * 2}));
  EXPECT_EQ(counts.at("all-gather of softmax sums, context group"),
            std::make_pair(std::int64_t{94}, std::int64_t{16 * 4}));
  EXPECT_EQ(counts.at("reduce-scatter of attention, context group"),
            std::make_pair(std::int64_t{94}, std::int64_t{16 * 128 * 2}));
  EXPECT_DOUBLE_EQ(cost_of(attention_of(plan)).kv_bytes, 1001.0 * 2 * 128 * 2 / 2);
}

TEST(Context, APromptIsWholeOnEachRank) {
  const StackSpec kimi = stack("kimi-k2.5");
  const ParallelLayout layout{.tensor = 8, .context = 8};
  const Plan first = build_plan(kimi, layout, pass(PassKind::prefill, 1, 100, 0));
  EXPECT_EQ(attention_of(first).context_ranks, 1);
  EXPECT_FALSE(collectives(first).contains("all-gather of queries, context group"));
  // What goes on behind 800 cached tokens gathers 100 of them from each rank.
  const Plan later = build_plan(kimi, layout, pass(PassKind::prefill, 1, 100, 800));
  EXPECT_EQ(collectives(later).at("all-gather of the cache, context group"),
            std::make_pair(std::int64_t{61}, std::int64_t{100 * 1152}));
}

TEST(Context, TheCacheOfARankIsDivided) {
  const StackSpec kimi = stack("kimi-k2.5");
  const DraftSpec mla = draft("kimi-k2.5-eagle3-mla");
  EXPECT_DOUBLE_EQ(kv_footprint(kimi, {.tensor = 8}).bytes_per_token, 61 * 1152);
  EXPECT_DOUBLE_EQ(kv_footprint(kimi, {.tensor = 8, .context = 8}).bytes_per_token, 61 * 1152 / 8.0);
  EXPECT_DOUBLE_EQ(kv_footprint(mla, {.tensor = 8, .context = 2}).bytes_per_token, 1152 / 2.0);
  EXPECT_DOUBLE_EQ(kv_footprint(stack("qwen3-235b-a22b"), {.tensor = 8, .context = 2}).bytes_per_token,
                   94 * 2 * 128 * 2 / 2.0);
}

TEST(Context, TheDraftsAttentionIsSplitToo) {
  const DraftSpec mla = draft("kimi-k2.5-eagle3-mla");
  const Plan plan = build_draft_plan(mla, {.tensor = 8, .context = 8}, pass(PassKind::draft, 4, 1, 1000));
  check_well_formed(plan);
  EXPECT_EQ(collectives(plan).at("all-gather of queries, context group"),
            std::make_pair(std::int64_t{1}, std::int64_t{4 * 8 * 576 * 2}));
  const Plan alone =
      build_draft_plan(mla, {.tensor = 8, .context = 8, .draft_tensor = 1}, pass(PassKind::draft, 4, 1, 1000));
  EXPECT_EQ(attention_of(alone).context_ranks, 1);
}

std::string faults(const auto& subject, const ParallelLayout& layout) {
  Issues issues;
  const Sources sources;
  Checker checker("", sources, {}, issues);
  check_layout(subject, layout, checker);
  std::string out;
  for (const Issue& issue : issues) out += issue.key + ": " + issue.what + "; " + issue.allowed + "\n";
  return out;
}

TEST(Context, WhatCannotBeSplitIsRefused) {
  EXPECT_EQ(faults(stack("kimi-k2.5"), {.tensor = 8, .context = 8}), "");
  EXPECT_THAT(faults(stack("qwen3-235b-a22b"), {.tensor = 8, .context = 4}),
              testing::HasSubstr("parallel.context: is 4; a divisor of 2: so many ranks hold the same cached heads"));
  EXPECT_THAT(faults(draft("kimi-k2.5-eagle3"), {.tensor = 8, .context = 8}),
              testing::HasSubstr("a divisor of 1: so many ranks hold the same cached heads of the draft's attention"));
  EXPECT_THAT(faults(stack("glm-5"), {.tensor = 8, .context = 2}), testing::HasSubstr("sparse attention"));
}

}  // namespace
}  // namespace specstep
