// Flops and bytes against closed forms written out by hand.
#include "model/cost.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace specstep {
namespace {

TEST(Cost, GemmReadsItsWeightsOnce) {
  const Cost c = cost_of(Gemm{.m = 3, .n = 7168, .k = 1024, .format = {}});
  EXPECT_DOUBLE_EQ(c.flops, 2.0 * 3 * 7168 * 1024);
  EXPECT_DOUBLE_EQ(c.weight_bytes, 2.0 * 7168 * 1024);
  EXPECT_DOUBLE_EQ(c.activation_bytes, 2.0 * 3 * (7168 + 1024));
}

TEST(Cost, GroupedScalesCountTheirShare) {
  // Kimi-K2.5 gate/up shard: 512 x 7168 int4 values in groups of 32 with bf16 scales, 8 experts met.
  const GroupedGemm g{.tokens = 1,
                      .top_k = 8,
                      .experts = 384,
                      .experts_met = 8,
                      .rows = 8,
                      .n = 512,
                      .k = 7168,
                      .format = {DType::int4, 32, DType::bf16}};
  EXPECT_DOUBLE_EQ(cost_of(g).weight_bytes, 8.0 * 512 * 7168 * 0.5625);
}

TEST(Cost, TokensSeenIsTheCausalMean) {
  for (const std::int64_t context : {0, 5, 100})
    for (const std::int64_t queries : {1, 3, 17})
      for (const std::int64_t limit : {0, 1, 4, 50, 1000}) {
        double sum = 0;
        for (std::int64_t i = 1; i <= queries; ++i)
          sum += static_cast<double>(limit > 0 ? std::min(limit, context + i) : context + i);
        EXPECT_NEAR(tokens_seen(context, queries, limit), sum / static_cast<double>(queries), 1e-9)
            << context << ' ' << queries << ' ' << limit;
      }
}

TEST(Cost, SharedQueriesReadTheCacheOnce) {
  Attention a{.kind = AttentionKind::mla,
              .sequences = 2,
              .queries = 3,
              .context = 100,
              .heads = 8,
              .score_dim = 576,
              .value_dim = 512,
              .cached_values = 576,
              .kv = DType::bf16};
  EXPECT_DOUBLE_EQ(cost_of(a).kv_bytes, 2.0 * 103 * 1152);
  EXPECT_DOUBLE_EQ(cost_of(a).flops, 2.0 * 2 * (101 + 102 + 103) * 8 * (576 + 512));
  a.queries_share_kv = false;
  EXPECT_DOUBLE_EQ(cost_of(a).kv_bytes, 2.0 * (101 + 102 + 103) * 1152);
}

// engine.md 4.2 / arXiv 2506.20675: distinct experts of Kimi-K2.5 for M independent tokens.
TEST(Cost, DistinctExpertsOfIndependentTokens) {
  const std::pair<std::int64_t, double> published[]{{1, 8},    {2, 15.8}, {3, 23.5}, {4, 31.0},  {8, 59.5},
                                                    {16, 110}, {32, 188}, {64, 284}, {128, 358}, {512, 384}};
  for (const auto& [tokens, experts] : published) {
    EXPECT_NEAR(expected_experts(384, 8, tokens, 1, 0.38), experts, experts * 0.005) << tokens;
    EXPECT_NEAR(expected_experts(384, 8, 1, tokens, 0), expected_experts(384, 8, tokens, 1, 0), 1e-9) << tokens;
  }
}

// Independent of the formula: draw top-k sets at random and count.
TEST(Cost, DistinctExpertsAgreeWithDraws) {
  std::mt19937 random(7);
  double sum = 0;
  const int trials = 4000;
  for (int t = 0; t < trials; ++t) {
    std::set<unsigned> met;
    for (int token = 0; token < 6; ++token) {
      std::set<unsigned> own;
      while (own.size() < 4) own.insert(random() % 32);
      met.insert(own.begin(), own.end());
    }
    sum += static_cast<double>(met.size());
  }
  EXPECT_NEAR(expected_experts(32, 4, 6, 1, 0), sum / trials, 0.1);
}

TEST(Cost, OverlapLowersWhatAChainMeets) {
  const double four = expected_experts(384, 8, 1, 4, 0.38);
  EXPECT_NEAR(expected_experts(384, 8, 1, 1, 0.38), 8, 1e-9);
  EXPECT_LT(four, expected_experts(384, 8, 1, 4, 0));
  // Two tokens with overlap o meet about k(2 - o) experts while few are met.
  EXPECT_NEAR(expected_experts(384, 8, 1, 2, 0.38), 8 * (2 - 0.38), 0.2);
  EXPECT_NEAR(expected_experts(384, 8, 1, 9, 1.0), 8, 1e-9);
}

TEST(Cost, NothingShrinksWhenTokensGrow) {
  const auto bytes = [](std::int64_t m) {
    return cost_of(Gemm{.m = m, .n = 64, .k = 64, .format = {}}).bytes() + cost_of(RmsNorm{m, 64, true}).bytes() +
           cost_of(Router{m, 16, 2}).bytes() + cost_of(Combine{m, 2, 64, true}).bytes() +
           cost_of(Embed{m, 64, {}}).bytes() + cost_of(Sample{SampleKind::sample, m, 512, 1}).bytes() +
           cost_of(Activation{m, 64}).bytes() + cost_of(Rope{m, 64, 128}).bytes();
  };
  for (std::int64_t m = 1; m < 200; m = 2 * m + 1) EXPECT_LT(bytes(m), bytes(2 * m + 1));
}

}  // namespace
}  // namespace specstep
