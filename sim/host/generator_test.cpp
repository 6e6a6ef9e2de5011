// Speculative decoding for real: the same text as without, and acceptance that can be counted.
#include "sim/host/generator.h"

#include <gtest/gtest.h>

#include "model/base/formatted.h"
#include "sim/host/test_runs.h"

namespace specstep::host {
namespace {

const std::string little_stack =
    "stack={name: little, source: test, layers: 2, hidden: 32, vocab: 64, attention: {kind: gqa, heads: 2, kv_heads: "
    "1, "
    "head_dim: 16}, mlp: {kind: dense, intermediate: 32}, weights: {rest: bf16}}";
const std::string little_draft =
    "draft={name: eagle, source: test, method: eagle3, layers: 1, hidden: 32, vocab: 64, fusion_taps: 1, attention: "
    "{kind: gqa, heads: 2, kv_heads: 1, head_dim: 16}, mlp: {kind: dense, intermediate: 32}, weights: {rest: bf16}}";

/// In bf16, where two tokens often have the same logit.
RunConfig little(std::int64_t seed, double agreement, std::vector<std::string> more = {}) {
  more.push_back(formatted("measure.host={{seed: {}, draft_agreement: {}}}", seed, agreement));
  more.emplace_back("workload={prompt_tokens: 4, output_tokens: 200}");
  return small_run(little_stack, little_draft, 1, more);
}

void expect_consistent(const AcceptanceCounts& a, std::int64_t depth) {
  double sum = 1;
  for (const double s : a.survival()) sum += s;
  EXPECT_NEAR(a.accept_length(), sum, 1e-12);      // SGLang's, from tokens emitted
  EXPECT_NEAR(a.acceptance_length(), sum, 1e-12);  // vLLM's, from drafts accepted
  EXPECT_EQ(a.survival().size(), static_cast<std::size_t>(depth));
}

TEST(Generator, GreedySpeculationGivesThePlainText) {
  double sum = 0;
  for (std::int64_t seed = 1; seed <= 20; ++seed) {
    Rig plain(little(seed, 0.55));
    const auto expected = plain.generator.generate(false).tokens;
    ASSERT_EQ(expected.front().size(), 200U);
    for (int k = 1; k <= 6; ++k) {
      const std::string shape = k <= 5 ? formatted("speculation.draft_length={}", k)
                                       : std::string("speculation.tree={steps: 3, topk: 2, verify_tokens: 6}");
      Rig rig(little(seed, 0.55, {shape}));
      const Generation got = rig.generator.generate(true);
      ASSERT_EQ(got.tokens, expected) << "seed " << seed << ", " << shape;
      expect_consistent(got.acceptance, k <= 5 ? k : 3);
      if (k == 5) sum += got.acceptance.accept_length();
    }
  }
  EXPECT_GT(sum / 20, 1.5);  // drafts were accepted and rejected, or the test would say little
  EXPECT_LT(sum / 20, 5);
}

TEST(Generator, AgreementDecidesTheAcceptanceLength) {
  const auto length = [](double agreement) {
    Rig rig(little(3, agreement));
    return rig.generator.generate(true).acceptance.accept_length();
  };
  EXPECT_LT(length(0), 1.3);  // a draft of its own guesses one of 64 tokens
  EXPECT_GT(length(0.6), length(0.4));
  EXPECT_EQ(length(1), 4);  // K + 1
}

TEST(Generator, AnyStackAndLayoutGivesThePlainText) {
  for (const std::string& stack : {mla_stack, hybrid_stack})
    for (const std::string& draft : {eagle_draft, nextn_draft})
      for (const char* shape :
           {"speculation.draft_length=3", "speculation.tree={steps: 2, topk: 3, verify_tokens: 8}"}) {
        const std::vector<std::string> more{shape, "workload={batch: 2, prompt_tokens: 5, output_tokens: 40}",
                                            "measure.host={draft_agreement: 0.7}"};
        Rig rig(small_run(stack, draft, 2, more));
        const auto expected = rig.generator.generate(false).tokens;
        const Generation got = rig.generator.generate(true);
        EXPECT_EQ(got.tokens, expected) << stack << draft << shape;
        EXPECT_GT(got.acceptance.accept_length(), 1);
      }
}

TEST(Generator, ADraftOfOneRankServesATargetOfFour) {
  const std::vector<std::string> more{"workload={prompt_tokens: 5, output_tokens: 30}",
                                      "parallel={tensor: 4, draft_tensor: 1}", "measure.host={draft_agreement: 1}"};
  Rig rig(small_run(dense_stack, nextn_draft, 4, more));
  EXPECT_EQ(rig.generator.generate(true).tokens, rig.generator.generate(false).tokens);
}

TEST(Generator, AttentionGroupsServeTextsOfTheirOwn) {
  const std::vector<std::string> more{"workload={batch: 3, prompt_tokens: 5, output_tokens: 30}",
                                      "parallel={tensor: 4, attention_data: 2, expert: 4}",
                                      "measure.host={precision: f32, draft_agreement: 0.7}"};
  Rig rig(small_run(mla_stack, eagle_draft, 4, more));
  EXPECT_EQ(rig.generator.generate(true).tokens, rig.generator.generate(false).tokens);
}

TEST(Generator, NgramProposesWhatFollowedBefore) {
  RunConfig config = little(5, 0, {"speculation.method=ngram"});
  Team team(1);
  Exchange exchange(config, team);
  Model target(view_of(config.stack, nullptr), 1, 2, config.measure.host, team, exchange);
  TokenGenerator generator(config, target, nullptr);
  const auto expected = generator.generate(false).tokens;
  const Generation got = generator.generate(true);
  EXPECT_EQ(got.tokens, expected);
  EXPECT_EQ(got.of(PassKind::draft).count + got.of(PassKind::extend).count, 0);
}

TEST(Generator, PassesOfACycleAreCounted) {
  Rig rig(little(2, 0.5, {"speculation.draft_length=3"}));
  const Generation got = rig.generator.generate(true);
  const std::int64_t cycles = got.of(PassKind::verify).count;
  EXPECT_EQ(got.acceptance.verifies, cycles);
  EXPECT_EQ(got.acceptance.drafted, 3 * cycles);
  EXPECT_EQ(got.of(PassKind::draft).count, 2 * cycles);  // the first draft comes out of the extend before
  EXPECT_EQ(got.of(PassKind::extend).count, cycles);
  EXPECT_GE(got.acceptance.emitted, 199);
  EXPECT_LT(got.acceptance.emitted, 199 + 4);
}

// A temperature near zero leaves one token with any chance, so both rules must give the greedy text.
TEST(Generator, ColdSamplingIsGreedy) {
  for (const char* rule : {"target_only", "rejection"}) {
    RunConfig config = little(4, 0.5);
    config.measure.host.precision = HostPrecision::f32;  // no two logits are equal
    Rig greedy(config);
    config.measure.host.temperature = 1e-5;
    config.measure.host.accept = rule == std::string("rejection") ? AcceptRule::rejection : AcceptRule::target_only;
    Rig cold(config);
    EXPECT_EQ(cold.generator.generate(true).tokens, greedy.generator.generate(true).tokens) << rule;
  }
}

// At temperature one, with the target's own logits as the draft's, min(1, p / q) is one: rejection keeps every draft;
// target-only keeps the best token as often as it is drawn.
TEST(Generator, RulesDifferInWhatTheyAccept) {
  RunConfig config = little(6, 1);
  config.measure.host.temperature = 1;
  config.measure.host.accept = AcceptRule::rejection;
  Rig rejection(config);
  EXPECT_GT(rejection.generator.generate(true).acceptance.accept_length(), 3.9);
  config.measure.host.accept = AcceptRule::target_only;
  Rig target_only(config);
  EXPECT_LT(target_only.generator.generate(true).acceptance.accept_length(), 2);
}

}  // namespace
}  // namespace specstep::host
