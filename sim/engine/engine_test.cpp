// Capture lists against the counts that engines log.
#include "sim/engine/engine.h"

#include <gtest/gtest.h>

namespace specstep {
namespace {

// SGLang server_args, early 2026; 52 graphs at 512 and 36 at 256 appear in its logs.
TEST(Engine, CaptureCounts) {
  const std::tuple<std::int64_t, std::size_t, std::size_t> counts[]{{8, 4, 8},     {16, 6, 12},   {32, 8, 20},
                                                                    {64, 12, 27},  {80, 14, 29},  {128, 20, 35},
                                                                    {160, 24, 39}, {256, 36, 51}, {512, 52, 67}};
  for (const auto& [most, plain, speculative] : counts) {
    EngineSpec engine;
    engine.graph.max_batch = most;
    EXPECT_EQ(captured_batches(engine, false).size(), plain) << most;
    EXPECT_EQ(captured_batches(engine, true).size(), speculative) << most;
  }
}

TEST(Engine, PadsUpAndRunsEagerlyBeyond) {
  EngineSpec engine;
  engine.graph.max_batch = 128;
  EXPECT_EQ(choose_launch(engine, PassKind::decode, 9, false).padded_batch, 12);
  EXPECT_EQ(choose_launch(engine, PassKind::verify, 9, true).padded_batch, 10);
  const LaunchChoice beyond = choose_launch(engine, PassKind::decode, 129, false);
  EXPECT_EQ(beyond.launch, Launch::eager);
  EXPECT_EQ(beyond.padded_batch, 129);
  EXPECT_EQ(choose_launch(engine, PassKind::prefill, 1, false).launch, Launch::eager);
}

}  // namespace
}  // namespace specstep
