// Faults of stacks that a reader must name.
#include "model/stack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/base/config_io.h"
#include "model/draft.h"
#include "model/pass.h"

namespace specstep {
namespace {

using testing::HasSubstr;

const char* const good = R"(name: x
layers: 4
hidden: 256
vocab: 512
attention: {kind: gqa, heads: 8, kv_heads: 2, head_dim: 32}
mlp: {kind: dense, intermediate: 512}
)";

std::string refusal(const std::string& set) {
  ReadOptions options;
  options.overrides.push_back(parse_override(set));
  try {
    read_config<StackSpec>(yaml::parse(good, "s.yaml"), options);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Stack, FaultsAreNamed) {
  EXPECT_EQ(refusal("layers=4"), "accepted");
  EXPECT_THAT(refusal("layers=0"), HasSubstr("layers: is '0'; an integer at least 1"));
  EXPECT_THAT(refusal("layers=-1"), HasSubstr("layers: is '-1'; an integer at least 1"));
  EXPECT_THAT(refusal("hidden=7168.5"), HasSubstr("hidden: is '7168.5'; an integer"));
  EXPECT_THAT(refusal("attention.kv_heads=3"), HasSubstr("attention.kv_heads: is 3; a divisor of heads (8)"));
  EXPECT_THAT(refusal("attention.kind=mla"), HasSubstr("attention.kv_rank: missing; mla needs it"));
  EXPECT_THAT(refusal("mlp.experts=8"), HasSubstr("mlp.experts: has no meaning here"));
  EXPECT_THAT(refusal("mlp={kind: moe, experts: 4, top_k: 8, expert_intermediate: 64}"),
              HasSubstr("mlp.top_k: is 8; at most experts (4)"));
  EXPECT_THAT(refusal("pattern=[window]"), HasSubstr("pattern[0].window: missing"));
  EXPECT_THAT(refusal("pattern=[linear]"), HasSubstr("pattern[0].linear: missing"));
  EXPECT_THAT(refusal("pattern=[]"), HasSubstr("pattern: is empty"));
  EXPECT_THAT(refusal("weights.experts=int4"), HasSubstr("weights.experts.group: missing"));
}

TEST(Stack, PatternRepeats) {
  ReadOptions options;
  options.overrides.push_back(parse_override("pattern=[{attention: window, window: 128}, full]"));
  const auto stack = read_config<StackSpec>(yaml::parse(good, "s.yaml"), options);
  EXPECT_EQ(stack.layer(0).attention, Span::window);
  EXPECT_EQ(stack.layer(3).attention, Span::full);
}

TEST(Layout, ContextDividesTheRanksOfASequence) {
  EXPECT_EQ(read_config<ParallelLayout>(yaml::parse("tensor: 8\ncontext: 4\n", "p.yaml")).context, 4);
  try {
    read_config<ParallelLayout>(yaml::parse("tensor: 8\ncontext: 4\nattention_data: 4\n", "p.yaml"));
    FAIL() << "context 4 was accepted for groups of two ranks";
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("p.yaml:2:10: context: is 4; a divisor of the 2 ranks that share"));
  }
}

}  // namespace
}  // namespace specstep
