// Whole passes against the host executor, which has a reference of its own: every kind of layer, target and draft.
#include <gtest/gtest.h>

#include "model/base/formatted.h"
#include "sim/cuda/test_rig.h"
#include "sim/host/philox.h"

namespace specstep::cuda {
namespace {

using host::chain_nodes;
using host::Matrix;
using host::PassInput;
using host::PassOutput;

constexpr std::int64_t prompt = 9;
constexpr const char* batch_of_two = "workload={batch: 2, prompt_tokens: 9, output_tokens: 40}";
constexpr const char* as_tree = "speculation.tree={steps: 3, topk: 2, verify_tokens: 5}";

/// Passes by name, in order.
using Passes = std::vector<std::pair<std::string, PassOutput>>;

/// A prompt, a verified tree 0-1-3-4 and 0-2 of which 0, 1, 3 stay, and a decode step behind them, for two texts.
template <class Rig>
Passes target_passes(Rig& rig) {
  PassInput first, tree, step;
  for (std::int32_t s = 0; s < 2; ++s) {
    first.sequences.push_back({chain_nodes(0, prompt), host::some_tokens(prompt, 100, 3 + s)});
    tree.sequences.push_back({{prompt, {-1, 0, 0, 1, 3}, 0}, host::some_tokens(5, 100, 50 + s)});
    step.sequences.push_back({chain_nodes(prompt + 3, 1), {42 + s}});
  }
  Passes out;
  out.emplace_back("prefill", rig.runner.target(PassKind::prefill, prompt, first, nullptr));
  for (std::size_t s = 0; s < 2; ++s) rig.target.keep(s, 0, host::first_nodes(prompt));
  out.emplace_back("verify", rig.runner.target(PassKind::verify, 5, tree, nullptr));
  for (std::size_t s = 0; s < 2; ++s) rig.target.keep(s, prompt, {0, 1, 3});
  out.emplace_back("decode", rig.runner.target(PassKind::decode, 1, step, nullptr));
  return out;
}

/// The draft on a prompt, fed with features from a counter, then a step behind it.
template <class Rig>
Passes draft_passes(Rig& rig) {
  const auto counted = [](host::Index rows, host::Index cols) {
    Matrix m(rows, cols);
    for (host::Index i = 0; i < m.size(); ++i)
      m.data()[i] = 1.7F * host::signed_unit(host::philox({static_cast<std::uint32_t>(i), 0, 0, 0}, {9, 9})[0]);
    return m;
  };
  const bool eagle = rig.config.draft->method == DraftMethod::eagle3;
  PassInput first, step;
  for (std::int32_t s = 0; s < 2; ++s) {
    first.sequences.push_back({chain_nodes(0, prompt), host::some_tokens(prompt, 100, 3 + s)});
    step.sequences.push_back({{prompt, {-1, -1}, 0}, {11 + s, 12 + s}});
  }
  first.given = counted(2 * prompt, eagle ? 3 * 64 : 64);
  step.given = counted(4, 64);
  Passes out;
  out.emplace_back("draft's prefill", rig.runner.draft(PassKind::prefill, prompt, first, nullptr));
  for (std::size_t s = 0; s < 2; ++s) rig.draft.keep(s, 0, host::first_nodes(prompt));
  out.emplace_back("draft step", rig.runner.draft(PassKind::draft, 2, step, nullptr));
  return out;
}

void expect_near(const Matrix& got, const Matrix& expected, double limit, const std::string& what) {
  ASSERT_EQ(got.rows(), expected.rows()) << what;
  ASSERT_EQ(got.cols(), expected.cols()) << what;
  if (expected.size() == 0) return;
  host::Index row = 0, col = 0;
  (got - expected).cwiseAbs().maxCoeff(&row, &col);
  const double error = host::nmse(got, expected);
  EXPECT_TRUE(error < limit) << what << " " << got.rows() << " x " << got.cols() << ": nmse " << error << ", limit "
                             << limit << "; worst at row " << row << ", column " << col << ": got " << got(row, col)
                             << ", expected " << expected(row, col);
}

void expect_near(const Passes& got, const Passes& expected, double limit, const std::string& what) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::string name = what + ", " + expected[i].first;
    expect_near(got[i].second.logits, expected[i].second.logits, limit, name + ", logits");
    expect_near(got[i].second.hidden, expected[i].second.hidden, limit, name + ", hidden");
    if (got[i].second.features.size() > 0)
      expect_near(got[i].second.features, expected[i].second.features, limit, name + ", features");
  }
}

struct Case {
  const char* name;
  const std::string& stack;
  const std::string& draft;
  bool of_draft;
  bool in_bf16;  // a sparse layer may select other tokens after a rounding, which is another model
  friend void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }
};

class OnDevice : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (devices_here() == 0) GTEST_SKIP() << "no CUDA device";
  }
};

std::vector<std::string> with(const Case& c, std::vector<std::string> more) {
  more.emplace_back(batch_of_two);
  more.emplace_back(as_tree);
  if (c.draft.find("nextn") != std::string::npos) more.emplace_back("speculation.method=nextn");
  return more;
}

void compare(const Case& c, std::int64_t ranks, const std::string& precision, const std::string& launch,
             const std::vector<std::string>& more = {}) {
  std::vector<std::string> sets = with(c, more);
  sets.push_back("engine.phases={prefill: " + launch + ", decode: " + launch + ", verify: " + launch +
                 ", draft: " + launch + ", extend: " + launch + "}");
  const RunConfig config = device_run(c.stack, c.draft, ranks, precision, sets);
  host::Rig host(config);
  CudaRig cuda(config);
  const double limit = precision == "f32" ? 1e-9 : 1e-3;
  const std::string what = formatted("{}, {} ranks, {}, {}", c.name, ranks, precision, launch);
  if (c.of_draft)
    expect_near(draft_passes(cuda), draft_passes(host), limit, what);
  else
    expect_near(target_passes(cuda), target_passes(host), limit, what);
}

TEST_P(OnDevice, F32IsTheHost) { compare(GetParam(), 1, "f32", "captured"); }
TEST_P(OnDevice, F32EagerlyIsTheHost) { compare(GetParam(), 1, "f32", "eager"); }
TEST_P(OnDevice, Bf16IsTheHost) {
  if (GetParam().in_bf16) compare(GetParam(), 1, "bf16", "captured");
}
TEST_P(OnDevice, TwoRanksAreTheHost) {
  if (devices_here() < 2) GTEST_SKIP() << "fewer than two CUDA devices";
  compare(GetParam(), 2, "f32", "captured");
}

TEST_P(OnDevice, FusedNormsOfRanksThatShareADeviceAreTheHost) {
  for (const char* backend : {"push1", "pull1", "rsag"})
    compare(GetParam(), 2, "f32", "captured",
            {"measure.cuda.devices=[0, 0]", formatted("comm={{backend: {}, fusion: rmsnorm}}", backend)});
}

INSTANTIATE_TEST_SUITE_P(Stacks, OnDevice,
                         testing::Values(Case{"dense", host::dense_stack, host::eagle_draft, false, true},
                                         Case{"mla_moe", host::mla_stack, host::eagle_draft, false, true},
                                         Case{"hybrid", host::hybrid_stack, host::eagle_draft, false, false},
                                         Case{"eagle3", host::dense_stack, host::eagle_draft, true, true},
                                         Case{"nextn", host::mla_stack, host::nextn_draft, true, true}),
                         [](const auto& given) { return given.param.name; });

TEST(OnDevices, GroupsAreTheHost) {
  if (devices_here() < 2) GTEST_SKIP() << "fewer than two CUDA devices";
  const Case c{"mla_moe", host::mla_stack, host::eagle_draft, false, true};
  for (const char* layout : {"{tensor: 2, expert: 2}", "{tensor: 2, expert: 1, attention_data: 2}",
                             "{tensor: 2, expert: 2, attention_data: 2}"})
    compare(c, 2, "f32", "captured", {std::string("parallel=") + layout});
}

TEST(OnDevices, LogitsLeftInPartsAreTheHost) {
  if (devices_here() < 2) GTEST_SKIP() << "fewer than two CUDA devices";
  compare({"dense", host::dense_stack, host::eagle_draft, false, true}, 2, "f32", "captured",
          {"comm.logits_gather=false"});
}

// The same kernels in the same order: not one bit differs.
TEST(OnDevices, CapturedIsEagerBitByBit) {
  if (devices_here() == 0) GTEST_SKIP() << "no CUDA device";
  for (const std::string& stack : {host::dense_stack, host::mla_stack, host::hybrid_stack}) {
    const auto outputs = [&](const std::string& launch) {
      CudaRig rig(
          device_run(stack, host::eagle_draft, 1, "bf16",
                     {batch_of_two, as_tree, "engine.phases={decode: " + launch + ", verify: " + launch + "}"}));
      return target_passes(rig);
    };
    const Passes captured = outputs("captured");
    const Passes eager = outputs("eager");
    for (std::size_t i = 0; i < captured.size(); ++i)
      EXPECT_EQ(captured[i].second.logits, eager[i].second.logits) << stack << captured[i].first;
  }
}

}  // namespace
}  // namespace specstep::cuda
