// Notes on traced passes: a line a fact, ranges where passes differ.
#include "sim/engine/pass_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/engine/benchmark.h"
#include "sim/test_configs.h"

namespace specstep {
namespace {

PhaseResult routed(std::vector<std::int32_t> met) {
  PhaseResult out;
  out.experts_met = std::move(met);
  out.local_experts = 384;
  out.experts_expected = 10.94;
  return out;
}

DeviceTrace captured_trace(double isolated, double inside, std::int64_t nodes) {
  return {nodes, 123, 123, isolated, inside, std::nullopt};
}

TEST(PassNotes, OnePassIsToldByItsFigures) {
  PassNotes notes;
  DeviceTrace trace = captured_trace(0.9921, 1.1134, 1530);
  trace.in_situ = InSitu{5.104e-6, 1.25e-6, 0.12e-6, ""};
  notes.add(pass_name(false, PassKind::decode), routed({8, 10, 13}), trace);
  EXPECT_THAT(notes.lines(),
              testing::ElementsAre(
                  "decode: a graph of 1530 nodes, 123 allreduces in it (123 nodes)",
                  "decode: 10.3 of 384 local experts met in a layer (8 to 13), expected 10.9",
                  "decode: the isolated steps sum to 99.2 % of the pass, the steps inside a traced one to 111.3 %",
                  "decode: an allreduce in situ takes 5.10 us from the last arrival on; the first rank waits 1.25 us "
                  "for that (clocks within 0.12 us, medians)"));
}

TEST(PassNotes, PassesOfAPhaseAreOneLineWithTheRange) {
  PassNotes notes;
  const double isolated[] = {0.991, 0.993, 0.990, 0.992, 0.991};
  const double inside[] = {1.111, 1.114, 1.112, 1.110, 1.113};
  const std::int32_t most[] = {12, 11, 14, 12, 13};
  for (int i = 0; i < 5; ++i)
    notes.add("decode", routed({7, most[i]}), captured_trace(isolated[i], inside[i], 1530 + i / 4));
  EXPECT_THAT(notes.lines(),
              testing::ElementsAre(
                  "decode: a graph of 1530 to 1531 nodes, 123 allreduces in it (123 nodes) (5 passes)",
                  "decode: 9.0 to 10.5 of 384 local experts met in a layer (7 to 14), expected 10.9 (5 passes)",
                  "decode: the isolated steps sum to 99.0 to 99.3 % of the pass, the steps inside a traced one to "
                  "111.0 to 111.4 % (5 passes)"));
}

TEST(PassNotes, FiguresThatAgreeAsShownAreOne) {
  PassNotes notes;
  for (const double share : {0.99210, 0.99212}) notes.add("decode", {}, captured_trace(share, 1.2, 0));
  EXPECT_THAT(notes.lines(),
              testing::ElementsAre(
                  "decode: the isolated steps sum to 99.2 % of the pass, the steps inside a traced one to 120.0 %"));
}

TEST(PassNotes, PhasesKeepApart) {
  PassNotes notes;
  notes.add(pass_name(false, PassKind::prefill), {}, captured_trace(0.9, 1, 0));
  notes.add(pass_name(true, PassKind::prefill), {}, captured_trace(0.8, 1, 0));
  notes.add(pass_name(false, PassKind::prefill), {}, captured_trace(0.7, 1, 0));
  EXPECT_THAT(notes.lines(),
              testing::ElementsAre(testing::StartsWith("prefill: the isolated steps sum to 70.0 to 90.0"),
                                   testing::StartsWith("draft's prefill: the isolated steps sum to 80.0 "
                                                       "%")));
}

/// What is told of passes with these allreduces in situ.
std::vector<std::string> in_situ_lines(const std::vector<InSitu>& found) {
  PassNotes notes;
  for (const InSitu& one : found) {
    DeviceTrace trace = captured_trace(1, 1, 0);
    trace.in_situ = one;
    notes.add("verify", {}, trace);
  }
  std::vector<std::string> out = notes.lines();
  out.erase(out.begin());  // the sums
  return out;
}

TEST(PassNotes, WaitsThatClocksDoNotTell) {
  EXPECT_THAT(in_situ_lines({{5e-6, 0, 0.1e-6, ""}, {6e-6, 0, 0.1e-6, ""}}),
              testing::ElementsAre("verify: an allreduce in situ takes 5.00 to 6.00 us from the last arrival on; the "
                                   "first rank waits no longer than the clocks tell for that (clocks within 0.10 us, "
                                   "medians) (2 passes)"));
  EXPECT_THAT(
      in_situ_lines({{5e-6, 0, 0.1e-6, ""}, {5e-6, 2e-6, 0.1e-6, ""}}),
      testing::ElementsAre("verify: an allreduce in situ takes 5.00 us from the last arrival on; the first rank "
                           "waits 0.00 to 2.00 us, where it is 0 no longer than the clocks tell, for that "
                           "(clocks within 0.10 us, medians) (2 passes)"));
}

TEST(PassNotes, WhatIsNotSplitSaysWhy) {
  const std::string processes = "ranks are processes";
  EXPECT_THAT(in_situ_lines({{0, 0, 0, processes}, {0, 0, 0, processes}}),
              testing::ElementsAre("allreduce in situ: not split, ranks are processes"));
  EXPECT_THAT(in_situ_lines({{5e-6, 0, 6e-6, ""}, {5e-6, 0, 7e-6, ""}, {5e-6, 1e-6, 1e-7, ""}}),
              testing::ElementsAre(testing::HasSubstr("takes 5.00 us"),
                                   "verify: allreduce in situ: not split, the clocks of the GPUs are known to 6.00 to "
                                   "7.00 us, which is no less than the transfer (2 passes)"));
}

/// A priced pass that says its steps alone took this share of it.
class SharePlan final : public PreparedPlan {
 public:
  SharePlan(std::unique_ptr<PreparedPlan> priced, double share) : priced_(std::move(priced)), share_(share) {}
  const Plan& plan() const override { return priced_->plan(); }
  Launch launch() const override { return priced_->launch(); }
  Timeline run(bool traced) override {
    Timeline out = priced_->run(traced);
    if (traced) out.device = captured_trace(share_, 1.2, 0);
    return out;
  }

 private:
  std::unique_ptr<PreparedPlan> priced_;
  double share_;
};

/// Each pass a thousandth more than the one before.
class ShareExecutor final : public Executor {
 public:
  explicit ShareExecutor(const RunConfig& config) : priced_(make_executor(config)) {}
  std::string_view name() const override { return "share"; }
  std::unique_ptr<PreparedPlan> prepare(Plan plan, Launch launch) override {
    share_ += 0.001;
    return std::make_unique<SharePlan>(priced_->prepare(std::move(plan), launch), share_);
  }

 private:
  std::unique_ptr<Executor> priced_;
  double share_ = 0.9;
};

TEST(PassNotes, ABenchmarkTellsEachPhaseOnce) {
  const RunConfig config = load_run("tiny");
  ShareExecutor executor(config);
  std::vector<std::string> told;
  for (const std::string& note : run_benchmark(config, executor).notes)
    if (note.find("isolated") != std::string::npos) told.push_back(note.substr(0, note.find(" of the pass")));
  EXPECT_THAT(told, testing::ElementsAre("prefill: the isolated steps sum to 90.1 %",
                                         "draft's prefill: the isolated steps sum to 90.2 %",
                                         "decode: the isolated steps sum to 90.3 to 90.7 %",
                                         "verify: the isolated steps sum to 90.8 to 91.2 %",
                                         "draft's draft: the isolated steps sum to 91.3 to 91.7 %",
                                         "draft's extend: the isolated steps sum to 91.8 to 92.2 %"));
}

}  // namespace
}  // namespace specstep
