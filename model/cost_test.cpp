// Flops and bytes against closed forms written out by hand.
#include "model/cost.h"

#include <gtest/gtest.h>

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

// A part of the cache: bytes and flops of all heads of the group over 1/4 of the tokens.
TEST(Cost, APartOfTheCacheIsReadByAllHeadsOfItsGroup) {
  Attention whole{.kind = AttentionKind::mla,
                  .sequences = 2,
                  .queries = 1,
                  .context = 999,
                  .heads = 8,
                  .score_dim = 576,
                  .value_dim = 512,
                  .cached_values = 576,
                  .kv = DType::fp8};
  Attention part = whole;
  part.heads = 32;
  part.context_ranks = 4;
  EXPECT_DOUBLE_EQ(cost_of(part).kv_bytes, 2.0 * 1000 * 576 / 4);
  EXPECT_DOUBLE_EQ(cost_of(part).flops, cost_of(whole).flops);
  EXPECT_DOUBLE_EQ(cost_of(part).activation_bytes, 4 * cost_of(whole).activation_bytes + 2.0 * 32 * 4);
  const Cost join = cost_of(AttentionJoin{.tokens = 2, .heads = 32, .value_dim = 512, .ranks = 4});
  EXPECT_DOUBLE_EQ(join.activation_bytes, 2.0 * (2 * 2 * 32 * 512) + 4.0 * 2 * 32 * 4);
}

TEST(Cost, WhatSequencesShareIsReadOnce) {
  Attention a{.kind = AttentionKind::mla,
              .sequences = 5,
              .queries = 2,
              .context = 1000,
              .heads = 8,
              .score_dim = 576,
              .value_dim = 512,
              .cached_values = 576,
              .kv = DType::fp8};
  const double flops = cost_of(a).flops;
  a.shared = 900;
  EXPECT_DOUBLE_EQ(cost_of(a).kv_bytes, 576.0 * (900 + 5 * 102));
  EXPECT_DOUBLE_EQ(cost_of(a).flops, flops);
  a.queries_share_kv = false;
  EXPECT_DOUBLE_EQ(cost_of(a).kv_bytes, 576.0 * (900 + 5 * (101 + 102)));
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
