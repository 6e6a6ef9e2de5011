// Padding of captured passes: what a batch between two captured sizes costs, over many batches and contexts.
#include <gtest/gtest.h>

#include "sim/engine/benchmark.h"
#include "sim/engine/launch.h"
#include "sim/engine/pass_series.h"
#include "sim/plan_of.h"
#include "sim/solve/prices.h"
#include "sim/test_configs.h"

namespace specstep {
namespace {

const std::vector<std::string> runs{"seed/eagle3", "llama-3.1-8b-1x-h100", "kimi-k2.6/mtp3"};

TEST(Padding, ReadsNoCache) {
  for (const std::string& name : runs)
    for (const std::int64_t batch : {3, 5, 9, 17, 33}) {
      RunConfig config = load_run(name, {"workload.prompt_tokens=30000"});
      config.workload.batch = batch;
      const Plan padded = plan_of(config, PassKind::decode);
      ASSERT_GT(padded.shape.padding, 0) << name << ' ' << batch;
      EXPECT_EQ(padded.shape.real_sequences(), batch);
      const PassShape bare{PassKind::decode, batch, 1, 30000};
      EXPECT_DOUBLE_EQ(padded.total().kv_bytes, plan_of(config, PassRequest{bare}).total().kv_bytes) << name;
    }
}

std::string whole_numbers(std::int64_t last) {
  std::string out = "1";
  for (std::int64_t i = 2; i <= last; ++i) out += "," + std::to_string(i);
  return out;
}

// Where every size is captured no pass is padded, and one sequence more never lowers what all get together.
TEST(Padding, WithoutItOneSequenceMoreNeverCosts) {
  for (const std::string name : {"seed/eagle3", "llama-3.1-8b-1x-h100"}) {
    const RunConfig base = load_run(name, {"engine.graph={sizes: [" + whole_numbers(700) + "]}"});
    solving::PlanShelf shelf;
    solving::Prices prices(base, shelf);
    for (const std::int64_t context : {100, 120000}) {
      double plain = 0, drafted = 0;
      for (std::int64_t batch = 1; batch <= 130; ++batch) {
        const solving::Point point = prices.at(solving::with(base, batch, base.speculation.draft_length), context);
        EXPECT_GE(point.plain_tok_s(batch), plain) << name << " at " << context << ", batch " << batch;
        EXPECT_GE(point.tok_s(batch), drafted) << name << " at " << context << ", batch " << batch;
        plain = point.plain_tok_s(batch);
        drafted = point.tok_s(batch);
      }
    }
  }
}

// A padded step lasts at least as long as the very batch would and at most as long as a batch of the captured size; a
// cycle never ends before a plain step does; and what padding takes from all sequences together stays small.
TEST(Padding, LiesBetweenTheBatchAndTheCapturedSize) {
  const std::string exact = "engine.graph={sizes: [" + whole_numbers(700) + "]}";
  for (const std::string& name : runs) {
    const RunConfig base = load_run(name), unpadded = load_run(name, {exact});
    solving::PlanShelf shelf, other_shelf;
    solving::Prices prices(base, shelf), exact_prices(unpadded, other_shelf);
    const auto at = [&](bool padded, std::int64_t batch, std::int64_t context) {
      const RunConfig& config = padded ? base : unpadded;
      return (padded ? prices : exact_prices)
          .at(solving::with(config, batch, config.speculation.draft_length), context);
    };
    for (const std::int64_t context : {100, 120000}) {
      double before = 0;
      for (const std::int64_t batch : {1, 2, 3, 4, 5, 8, 9, 12, 13, 16, 17, 24, 25, 32, 33, 64, 65, 128}) {
        const LaunchChoice choice = choose_launch(base, PassKind::decode, batch);
        if (choice.launch == Launch::eager) continue;
        const solving::Point point = at(true, batch, context);
        const double tiny = 1 + 1e-12;
        EXPECT_GE(point.step * tiny, at(false, batch, context).step) << name << ' ' << context << ' ' << batch;
        EXPECT_LE(point.step, at(false, choice.padded_batch, context).step * tiny)
            << name << ' ' << context << ' ' << batch;
        EXPECT_GE(point.break_even(), 1) << name << ' ' << context << ' ' << batch;
        EXPECT_GE(point.plain_tok_s(batch), 0.92 * before) << name << ' ' << context << ' ' << batch;
        before = point.plain_tok_s(batch);
      }
    }
  }
}

// Without launches to pay for, a pass without a graph takes what the captured one of the very size takes.
TEST(Padding, EagerWithoutLaunchesIsCapturedWithoutPadding) {
  const RunConfig config = load_run("llama-3.1-8b-1x-h100", {"machine.gpu.eager_launch_us=0"});
  const auto executor = make_executor(config);
  for (const std::int64_t batch : {1, 7, 16, 50}) {
    const Plan plan = plan_of(config, PassRequest{{PassKind::decode, batch, 1, 20000}});
    EXPECT_DOUBLE_EQ(executor->prepare(plan, Launch::eager)->run(false).seconds,
                     executor->prepare(plan, Launch::captured)->run(false).seconds)
        << batch;
  }
}

// An executor that measures runs every sequence of a padded pass with a cache: its plan has none that lack one.
TEST(Padding, IsNotToldToAnExecutorThatMeasures) {
  class Source final : public PassSource {
   public:
    PassOutcome carry_out(const PassRequest& request) override {
      asked.push_back(request.shape);
      PassOutcome out;
      out.phase.samples = {1};
      return out;
    }
    std::vector<PassShape> asked;
  } source;
  const RunConfig config = load_run("seed/baseline-graph128", {"workload.batch=9"});
  PassSeries(config, source, true).once({PassKind::decode}, 100);
  PassSeries(config, source, false).once({PassKind::decode}, 100);
  EXPECT_EQ(source.asked.at(0), (PassShape{PassKind::decode, 12, 1, 100}));
  EXPECT_EQ(source.asked.at(1).sequences, 12);
  EXPECT_EQ(source.asked.at(1).padding, 3);
}

}  // namespace
}  // namespace specstep
