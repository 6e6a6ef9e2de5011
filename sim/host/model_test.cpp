// A model is the same on any number of ranks, and in passes of any width.
#include "sim/host/model.h"

#include <gtest/gtest.h>

#include "model/base/formatted.h"
#include "sim/host/philox.h"
#include "sim/host/test_runs.h"

namespace specstep::host {
namespace {

constexpr std::size_t prompt = 9;

struct Outputs {
  PassOutput prefill, verify;
};

/// A prompt and a verify pass of four tokens, for each text of the batch.
Outputs target_passes(Rig& rig) {
  PassInput first, second;
  for (std::int32_t s = 0; s < static_cast<std::int32_t>(rig.config.workload.batch); ++s) {
    first.sequences.push_back({chain_nodes(0, prompt), some_tokens(prompt, 100, 3 + s)});
    second.sequences.push_back({chain_nodes(prompt, 4), some_tokens(4, 100, 50 + s)});
  }
  Outputs out;
  out.prefill = rig.runner.target(PassKind::prefill, prompt, first, nullptr);
  for (std::size_t s = 0; s < first.sequences.size(); ++s) rig.target.keep(s, 0, first_nodes(prompt));
  out.verify = rig.runner.target(PassKind::verify, 4, second, nullptr);
  return out;
}

/// The same of the draft, fed with features from a counter, then a draft step behind it.
Outputs draft_passes(Rig& rig) {
  const auto counted = [](Index rows, Index cols) {
    Matrix m(rows, cols);
    for (Index i = 0; i < m.size(); ++i)
      m.data()[i] = 1.7F * signed_unit(philox({static_cast<std::uint32_t>(i), 0, 0, 0}, {9, 9})[0]);
    return m;
  };
  const bool eagle = rig.config.draft->method == DraftMethod::eagle3;
  PassInput in{{{chain_nodes(0, prompt), some_tokens(prompt, 100)}}, counted(prompt, eagle ? 3 * 64 : 64)};
  Outputs out;
  out.prefill = rig.runner.draft(PassKind::prefill, prompt, in, nullptr);
  rig.draft.keep(0, 0, first_nodes(prompt));
  PassInput next{{{chain_nodes(prompt, 1), {11}}}, counted(1, 64)};
  out.verify = rig.runner.draft(PassKind::draft, 1, next, nullptr);
  return out;
}

void expect_same(const Outputs& a, const Outputs& b, double limit, const std::string& what) {
  EXPECT_LT(nmse(a.prefill.logits, b.prefill.logits), limit) << what;
  EXPECT_LT(nmse(a.verify.logits, b.verify.logits), limit) << what;
  EXPECT_LT(nmse(a.verify.hidden, b.verify.hidden), limit) << what;
  for (Index r = 0; limit < 1e-9 && r < b.verify.logits.rows(); ++r) {
    Index x = 0, y = 0;
    a.verify.logits.row(r).maxCoeff(&x);
    b.verify.logits.row(r).maxCoeff(&y);
    EXPECT_EQ(x, y) << what << ", the token of row " << r;
  }
}

struct Case {
  const char* name;
  const std::string& stack;
  const std::string& draft;
  bool of_draft;
  bool in_bf16;
};

class AnyLayout : public testing::TestWithParam<Case> {};

// Rounding to bf16 changes a value by up to 2^-8 of itself, (2^-7)^2 / 12 / 2 = 2.5e-6 in the mean square; two layouts
// round independently, so each rounding on the way adds 5e-6. Two layers have about a dozen that count in full. A
// sparse layer is left out: a rounding may select other tokens, which is another model.
TEST_P(AnyLayout, IsTheSameModel) {
  const Case& c = GetParam();
  const auto passes = [&](Rig& rig) { return c.of_draft ? draft_passes(rig) : target_passes(rig); };
  for (const char* precision : {"f32", "bf16"}) {
    if (precision == std::string("bf16") && !c.in_bf16) continue;
    const std::vector<std::string> more{std::string("measure.host={precision: ") + precision + "}"};
    Rig one(small_run(c.stack, c.draft, 1, more));
    const Outputs expected = passes(one);
    EXPECT_GT(expected.verify.logits.squaredNorm() / static_cast<float>(expected.verify.logits.size()), 0.3);
    EXPECT_LT(expected.verify.logits.squaredNorm() / static_cast<float>(expected.verify.logits.size()), 3);
    for (const std::int64_t ranks : {2, 4, 8}) {
      Rig many(small_run(c.stack, c.draft, ranks, more));
      expect_same(passes(many), expected, precision == std::string("f32") ? 1e-10 : 1e-4,
                  formatted("{} ranks, {}", ranks, precision));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Stacks, AnyLayout,
                         testing::Values(Case{"dense", dense_stack, eagle_draft, false, true},
                                         Case{"mla_moe", mla_stack, eagle_draft, false, true},
                                         Case{"hybrid", hybrid_stack, eagle_draft, false, false},
                                         Case{"eagle3", dense_stack, eagle_draft, true, true},
                                         Case{"nextn", mla_stack, nextn_draft, true, true}),
                         [](const auto& given) { return given.param.name; });

TEST(Layouts, ExpertAndAttentionGroupsAreTheSameModel) {
  const std::vector<std::string> batch{"workload.batch=3"};  // one attention group lacks a text
  Rig one(small_run(mla_stack, eagle_draft, 1, batch));
  const Outputs expected = target_passes(one);
  for (const char* layout :
       {"{tensor: 4, expert: 4}", "{tensor: 4, expert: 2}", "{tensor: 2, expert: 1, attention_data: 2}",
        "{tensor: 4, expert: 4, attention_data: 2}", "{tensor: 4, expert: 1, attention_data: 2}",
        "{tensor: 2, expert: 2, attention_data: 2}"}) {
    std::vector<std::string> more = batch;
    more.push_back(std::string("parallel=") + layout);
    Rig many(small_run(mla_stack, eagle_draft, 1, more));
    expect_same(target_passes(many), expected, 1e-10, layout);
  }
}

// The sum is rounded before it joins the residual stream in both, so not one bit differs.
TEST(Layouts, FusedNormsAreTheSameBitByBit) {
  const auto expect_equal = [](const Outputs& a, const Outputs& b) {
    EXPECT_EQ(a.prefill.logits, b.prefill.logits);
    EXPECT_EQ(a.verify.logits, b.verify.logits);
    EXPECT_EQ(a.verify.hidden, b.verify.hidden);
    EXPECT_EQ(a.verify.features, b.verify.features);
    EXPECT_GT(a.verify.logits.squaredNorm(), 0);
  };
  const auto run = [](const std::string& stack, const std::string& draft, const char* precision, const char* fusion) {
    return small_run(stack, draft, 4,
                     {std::string("measure.host={precision: ") + precision + "}",
                      std::string("comm={backend: push1, fusion: ") + fusion + "}"});
  };
  for (const char* precision : {"f32", "bf16"})
    for (const std::string& stack : {dense_stack, mla_stack, hybrid_stack}) {
      Rig fused(run(stack, eagle_draft, precision, "rmsnorm")), apart(run(stack, eagle_draft, precision, "none"));
      expect_equal(target_passes(fused), target_passes(apart));
      expect_equal(draft_passes(fused), draft_passes(apart));
    }
  Rig fused(run(mla_stack, nextn_draft, "bf16", "rmsnorm")), apart(run(mla_stack, nextn_draft, "bf16", "none"));
  expect_equal(draft_passes(fused), draft_passes(apart));
}

TEST(Layouts, LogitsLeftInPartsAreTheSame) {
  Rig one(small_run(dense_stack, eagle_draft, 1));
  Rig parts(small_run(dense_stack, eagle_draft, 4, {"comm.logits_gather=false"}));
  expect_same(target_passes(parts), target_passes(one), 1e-10, "parts");
}

class AnyWidth : public testing::TestWithParam<Case> {};

// Also after some of the nodes were dropped again, and along both branches of a tree. Bit by bit.
TEST_P(AnyWidth, VerifyingIsDecodingStepByStep) {
  for (const std::int64_t ranks : {1, 2})
    for (const char* precision : {"f32", "bf16"}) {
      const RunConfig config = small_run(GetParam().stack, GetParam().draft, ranks,
                                         {std::string("measure.host={precision: ") + precision + "}"});
      Rig wide(config);
      Rig narrow(config);
      const auto decode = [&](std::int64_t base, std::int32_t token) {
        const PassInput in{{{chain_nodes(base, 1), {token}}}, {}};
        Matrix logits = narrow.runner.target(PassKind::decode, 1, in, nullptr).logits;
        narrow.target.keep(0, base, {0});
        return logits;
      };
      const PassInput text{{{chain_nodes(0, prompt), some_tokens(prompt, 100)}}, {}};
      for (Rig* rig : {&wide, &narrow}) {
        rig->runner.target(PassKind::prefill, prompt, text, nullptr);
        rig->target.keep(0, 0, first_nodes(prompt));
      }
      // Nodes 0-1-3-4 and 0-2.
      const PassInput tree{{{{prompt, {-1, 0, 0, 1, 3}, 0}, {5, 6, 7, 8, 9}}}, {}};
      const Matrix verified = wide.runner.target(PassKind::verify, 5, tree, nullptr).logits;
      wide.target.keep(0, prompt, {0, 1, 3});
      const std::vector<std::pair<std::int32_t, Index>> path{{5, 0}, {6, 1}, {8, 3}};
      std::int64_t base = prompt;
      for (const auto& [token, node] : path) EXPECT_EQ(decode(base++, token), verified.row(node)) << node;
      // Node 4 was dropped; go on with another token.
      const PassInput next{{{chain_nodes(base, 2), {42, 43}}}, {}};
      const Matrix after = wide.runner.target(PassKind::verify, 2, next, nullptr).logits;
      EXPECT_EQ(decode(base, 42), after.row(0));
      EXPECT_EQ(decode(base + 1, 43), after.row(1));
    }
}

INSTANTIATE_TEST_SUITE_P(Stacks, AnyWidth,
                         testing::Values(Case{"dense", dense_stack, eagle_draft, false, true},
                                         Case{"mla_moe", mla_stack, eagle_draft, false, true},
                                         Case{"hybrid", hybrid_stack, eagle_draft, false, true}),
                         [](const auto& given) { return given.param.name; });

TEST(Model, AWindowForgetsWhatLiesBeforeIt) {
  const std::string stack =
      "stack={name: w, source: test, layers: 1, hidden: 64, vocab: 100, attention: {kind: gqa, heads: 8, kv_heads: 8, "
      "head_dim: 8}, pattern: [{attention: window, window: 4}], mlp: {kind: dense, intermediate: 64}, weights: {rest: "
      "bf16}}";
  Rig rig(small_run(stack, eagle_draft, 1));
  const auto logits_with = [&](std::size_t place, std::int32_t token) {
    std::vector<std::int32_t> text = some_tokens(prompt, 100);
    text[place] = token;
    rig.target.clear(0);
    return rig.runner.target(PassKind::prefill, prompt, {{{chain_nodes(0, prompt), text}}, {}}, nullptr).logits;
  };
  EXPECT_EQ(logits_with(prompt - 5, 1), logits_with(prompt - 5, 2));
  EXPECT_NE(logits_with(prompt - 4, 1), logits_with(prompt - 4, 2));
}

}  // namespace
}  // namespace specstep::host
