// Speculative decoding on devices: token for token the text of the host, with drafts or without.
#include <gtest/gtest.h>

#include "sim/cuda/test_rig.h"

namespace specstep::cuda {
namespace {

using Tokens = std::vector<std::vector<std::int32_t>>;

void expect_text(const Tokens& got, const Tokens& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (std::size_t s = 0; s < got.size(); ++s) {
    const auto differ = std::mismatch(got[s].begin(), got[s].end(), expected[s].begin(), expected[s].end());
    EXPECT_TRUE(got[s] == expected[s]) << what << ": text " << s << " of " << got[s].size() << " tokens differs at "
                                       << differ.first - got[s].begin();
  }
}

struct Variant {
  const std::string& stack;
  const std::string& draft;
  std::string shape;
};

void compare(const Variant& run, std::int64_t ranks) {
  const RunConfig config = device_run(run.stack, run.draft, ranks, "f32",
                                      {run.shape, "workload={batch: 2, prompt_tokens: 5, output_tokens: 40}",
                                       "measure.host={precision: f32, draft_agreement: 0.7}"});
  const std::string what = run.stack.substr(0, 24) + " " + run.shape;
  host::Rig host(config);
  const Tokens expected = host.generator.generate(false).tokens;
  CudaRig cuda(config);
  expect_text(cuda.generator.generate(false).tokens, expected, what + ", plain");
  const Generation drafted = cuda.generator.generate(true);
  expect_text(drafted.tokens, expected, what + ", drafted");
  EXPECT_GT(drafted.acceptance.accept_length(), 1) << what;  // or the drafts said nothing
  EXPECT_EQ(drafted.acceptance.accepted_at, host.generator.generate(true).acceptance.accepted_at) << what;
  // Once more on caches that hold another text.
  expect_text(cuda.generator.generate(true).tokens, expected, what + ", again");
}

const std::vector<Variant>& runs() {
  static const std::string chain = "speculation.draft_length=3";
  static const std::string tree = "speculation.tree={steps: 2, topk: 3, verify_tokens: 8}";
  static const std::vector<Variant> all{
      {host::dense_stack, host::eagle_draft, chain}, {host::dense_stack, host::nextn_draft, tree},
      {host::mla_stack, host::eagle_draft, chain},   {host::mla_stack, host::nextn_draft, tree},
      {host::hybrid_stack, host::eagle_draft, tree}, {host::hybrid_stack, host::nextn_draft, chain}};
  return all;
}

TEST(CudaGenerator, GivesTheHostsText) {
  if (devices_here() == 0) GTEST_SKIP() << "no CUDA device";
  for (const Variant& run : runs()) compare(run, 1);
}

TEST(CudaGenerator, OnTwoRanksToo) {
  if (devices_here() < 2) GTEST_SKIP() << "fewer than two CUDA devices";
  for (const Variant& run : runs()) compare(run, 2);
}

}  // namespace
}  // namespace specstep::cuda
