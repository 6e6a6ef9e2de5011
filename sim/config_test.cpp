// Runs read from files: parts together, and the faults that only they show.
#include "sim/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/engine/benchmark.h"
#include "sim/engine/config_notes.h"
#include "sim/test_configs.h"

namespace specstep {
namespace {

using testing::HasSubstr;

std::string refusal(const std::string& run, const std::vector<std::string>& sets) {
  try {
    load_run(run, sets);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(RunConfig, HeadsMustDivide) {
  EXPECT_THAT(
      refusal("seed/baseline-graph128", {"parallel.tensor=3"}),
      HasSubstr(
          "--set parallel.tensor=3: parallel.tensor: splits over 3 ranks; a number that divides the heads (64), "));
  EXPECT_THAT(refusal("seed/baseline-graph128", {"parallel.tensor=16"}), HasSubstr("at most the machine's 8 GPUs"));
  EXPECT_THAT(refusal("llama-3.3-70b-8x-h200", {"parallel={tensor: 8, expert: 3}"}),
              HasSubstr("a divisor of tensor (8)"));
}

TEST(RunConfig, OverridesReachIntoParts) {
  const RunConfig c =
      load_run("seed/eagle3", {"stack.layers=10", "machine.gpu.memory_bandwidth_gb_s=2000", "workload.batch=8"});
  EXPECT_EQ(c.stack.layers, 10);
  EXPECT_EQ(c.machine.gpu.memory_bandwidth_gb_s.value, 2000);
  EXPECT_EQ(c.machine.gpu.memory_bandwidth_gb_s.source, "not given");
  EXPECT_EQ(c.workload.batch, 8);
  EXPECT_EQ(load_run("seed/eagle3", {"stack=llama-3.3-70b", "draft=llama-3.3-70b-eagle3"}).stack.layers, 80);
}

TEST(RunConfig, DraftMustFitItsTarget) {
  EXPECT_THAT(refusal("seed/eagle3", {"draft=tiny-eagle3"}),
              HasSubstr("draft: reads features of width 256; the stack's hidden, 7168"));
  EXPECT_THAT(refusal("seed/eagle3", {"speculation.method=nextn"}), HasSubstr("the draft's method, eagle3"));
  EXPECT_THAT(refusal("seed/baseline-graph128", {"speculation={method: eagle3, acceptance: {rate: 0.5}}"}),
              HasSubstr("draft: missing; eagle3 needs a draft model"));
}

// Public case G07: a list of the wrong length is refused with both lengths.
TEST(RunConfig, AcceptanceMustMatchTheDraftLength) {
  EXPECT_THAT(refusal("seed/eagle3", {"speculation.draft_length=3"}),
              HasSubstr("has 2 entries; one for each of the 3 drafts"));
  EXPECT_THAT(refusal("seed/eagle3", {"speculation.acceptance={length: 3.5}"}), HasSubstr("is 3.5; at most 3"));
  EXPECT_THAT(refusal("seed/eagle3", {"speculation.acceptance={rate: 0.5, length: 2}"}),
              HasSubstr("is told in 2 ways"));
  EXPECT_THAT(refusal("seed/eagle3", {"speculation.acceptance={survival: [0.4, 0.6]}"}), HasSubstr("survival: grows"));
}

TEST(RunConfig, AcceptanceIsNeededWhereItIsNotCounted) {
  const std::string none = "speculation={method: eagle3, draft_length: 2}";
  EXPECT_THAT(refusal("tiny", {none}), HasSubstr("speculation.acceptance: missing"));
  EXPECT_EQ(refusal("tiny", {none, "measure.executor=host"}), "accepted");
  EXPECT_THAT(refusal("tiny", {none, "measure.executor=host", "speculation.acceptance={length: 9}"}),
              HasSubstr("at most 3"));
}

TEST(RunConfig, TheHostRefusesBackendsThatMoveNothingWhereTheyStand) {
  EXPECT_THAT(refusal("tiny", {"measure.executor=host", "comm=\"null\""}),
              HasSubstr("--set comm=\"null\": comm.backend: 'null' moves no values"));
  EXPECT_THAT(refusal("tiny", {"measure.executor=host", "comm=[{up_to_kib: 9, backend: nccl}, {backend: delay}]"}),
              HasSubstr("backend: delay}]: comm.table[1].backend: 'delay' moves no values"));
  EXPECT_EQ(refusal("tiny", {"measure.executor=host", "comm=\"null\"", "parallel.tensor=1"}), "accepted");
}

TEST(RunConfig, BackendsAreKnownAndTablesOrdered) {
  EXPECT_THAT(refusal("seed/eagle3", {"comm.backend=off"}), HasSubstr("comm.backend: unknown backend 'off'"));
  EXPECT_THAT(refusal("seed/eagle3",
                      {"comm=[{up_to_kib: 56, backend: pull1}, {up_to_kib: 20, backend: push1}, {backend: nccl}]"}),
              HasSubstr("does not grow"));
  EXPECT_THAT(refusal("seed/eagle3", {"comm=[{backend: pull1}, {backend: nccl}]"}),
              HasSubstr("only the last row has no limit"));
  const RunConfig c = load_run("seed/eagle3", {"comm=[{up_to_kib: 56, backend: pull1}, {backend: nccl}]"});
  EXPECT_EQ(c.comm.pick(56 * 1024), "pull1");
  EXPECT_EQ(c.comm.pick(56 * 1024 + 1), "nccl");
}

TEST(RunConfig, TheLastSpellingOfCommCounts) {
  EXPECT_EQ(load_run("tiny", {"comm.backend=nccl", "comm={backend: push1, fusion: rmsnorm}"}).comm.pick(1), "push1");
  EXPECT_EQ(load_run("tiny", {"comm.backend=nccl", "comm=push1"}).comm.pick(1), "push1");
  EXPECT_EQ(load_run("tiny", {"comm=push1", "comm.backend=nccl"}).comm.pick(1), "nccl");
  // A part that is only named keeps what is set inside it.
  EXPECT_EQ(load_run("tiny", {"stack.layers=3", "stack=tiny"}).stack.layers, 3);
}

TEST(RunConfig, FusionIsRefusedWhereNoBackendCan) {
  const std::string can = "none, or push1, pull1, rsag or island as the backend";
  EXPECT_THAT(refusal("seed/eagle3", {"comm={backend: nccl, fusion: rmsnorm}"}),
              HasSubstr("comm.fusion: nccl cannot go on with a norm inside its allreduce; " + can));
  EXPECT_THAT(refusal("seed/eagle3", {"comm={fusion: rmsnorm}"}), HasSubstr("comm.fusion: nccl cannot"));
  EXPECT_THAT(
      refusal("seed/eagle3", {"comm={table: [{up_to_kib: 9, backend: ring}, {backend: nccl}], fusion: rmsnorm}"}),
      HasSubstr("comm.fusion: no backend of the table can go on with a norm inside its allreduce; " + can));
  EXPECT_THAT(refusal("seed/eagle3", {"comm={backend: push1, fusion: gelu}"}), HasSubstr("comm.fusion: "));
  const std::string mixed = "comm={table: [{up_to_kib: 56, backend: pull1}, {backend: nccl}], fusion: rmsnorm}";
  EXPECT_EQ(refusal("seed/eagle3", {mixed}), "accepted");
  const auto notes = config_notes(load_run("seed/eagle3", {mixed, "engine.cycle=sglang-v2"}));
  ASSERT_EQ(notes.size(), 2u);
  EXPECT_EQ(notes[0], "comm.fusion: nccl (comm.table[1]) cannot fuse; its allreduces keep their norms apart");
  EXPECT_THAT(notes[1], HasSubstr("comm.fusion on sm_120"));  // what the engine's own would have been
}

TEST(RunConfig, ATableMayStandInAFileOfItsOwn) {
  const std::string rows = "{table: [{up_to_kib: 56, backend: pull1}, {backend: nccl}]}";
  const RunConfig c = load_run("seed/eagle3", {"comm={table_file: " + rows + "}"});
  EXPECT_EQ(c.comm.pick(56 * 1024), "pull1");
  EXPECT_EQ(c.comm.pick(56 * 1024 + 1), "nccl");
  EXPECT_THAT(refusal("seed/eagle3", {"comm={table_file: " + rows + ", backend: nccl}"}),
              HasSubstr("comm.table_file: is given beside a backend"));
  EXPECT_THAT(refusal("seed/eagle3", {"comm={table_file: {table: [{backend: pull1}, {backend: nccl}]}}"}),
              HasSubstr("comm.table_file.table[0].up_to_kib: missing"));
  EXPECT_THAT(refusal("seed/eagle3", {"comm={table_file: {table: []}}"}), HasSubstr("comm.table_file.table: is empty"));
}

TEST(RunConfig, AnEmptyListThatDecidesIsRefused) {
  EXPECT_THAT(refusal("seed/eagle3", {"comm=[]"}),
              HasSubstr("--set comm=[]: comm.table: is empty; one element or more"));
  EXPECT_THAT(refusal("seed/eagle3", {"engine.graph.sizes=[]"}),
              HasSubstr("engine.graph.sizes: is empty; auto, or one size or more"));
  EXPECT_THAT(refusal("seed/eagle3", {"speculation.acceptance={survival: []}"}),
              HasSubstr("speculation.acceptance.survival: is empty; one element or more"));
  EXPECT_EQ(refusal("seed/eagle3", {"engine.graph={sizes: auto}"}), "accepted");
}

// Two sockets of four GPUs: pairs across them move four times as much over the link between them.
TEST(RunConfig, IslandsAreThoseAskedFor) {
  const auto run = [](const std::string& islands) {
    const RunConfig c = load_run("seed/eagle3", {"comm={backend: island, own: {islands: " + islands + "}}"});
    return run_benchmark(c, *make_executor(c));
  };
  const RunResult along = run("[[0, 1, 2, 3], [4, 5, 6, 7]]"), across = run("[[0, 4], [1, 5], [2, 6], [3, 7]]");
  EXPECT_LT(along.metrics.at("allreduce.isolated_us").value, across.metrics.at("allreduce.isolated_us").value);
  EXPECT_GT(along.metrics.at("speculative.tok_s").value, across.metrics.at("speculative.tok_s").value);
  EXPECT_THAT(refusal("seed/eagle3", {"comm={backend: island, own: {islands: [[0, 1], [2, 3]]}}"}),
              HasSubstr("comm.own.islands: divide 4 ranks; the 8 ranks of parallel.tensor"));
  EXPECT_THAT(config_notes(load_run("seed/eagle3", {"comm={backend: nccl, own: {islands: [[0, 1, 2, 3], [4, 5, 6, 7]], "
                                                    "wire: ll}}"})),
              AllOf(testing::Contains(HasSubstr("comm.own.islands is not read")),
                    testing::Contains(HasSubstr("of comm.own only islands are read"))));
}

// Parts that are changed are no longer what their names say.
TEST(RunConfig, AChangedMachineSaysSo) {
  EXPECT_THAT(load_run("seed/eagle3", {"machine.fabric=dual_root_direct"}).machine.name,
              testing::EndsWith(" (fabric changed)"));
  EXPECT_EQ(load_run("seed/eagle3", {"workload.batch=2"}).machine.name, load_run("seed/eagle3").machine.name);
}

TEST(RunConfig, CanonicalFormReadsBack) {
  const RunConfig c = load_run("seed/eagle3");
  const auto canonical = dump_config(c);
  const auto again = read_config<RunConfig>(yaml::parse(to_yaml(canonical), "dump.yaml"));
  EXPECT_EQ(dump_config(again), canonical);
}

TEST(RunConfig, ASplitCacheIsPricedAndNotComputed) {
  EXPECT_EQ(load_run("kimi-k2.6/decode", {"parallel.context=8"}).parallel.context, 8);
  const auto refused = [](const std::string& executor) {
    return refusal_of([&] { load_run("kimi-k2.6/decode", {"parallel.context=8", "measure.executor=" + executor}); });
  };
  EXPECT_THAT(refused("host"),
              testing::HasSubstr("parallel.context: is 8; 1: the host executor keeps the whole cache"));
  EXPECT_THAT(refused("cuda"), testing::HasSubstr("the cuda executor keeps the whole cache"));
}

TEST(RunConfig, APrefixCannotBeLongerThanThePrompt) {
  EXPECT_THAT(refusal_of([] {
                load_run("kimi-k2.5-8x-h200", {"workload.prompt_tokens=100", "workload.shared_prefix_tokens=101"});
              }),
              testing::HasSubstr("workload.shared_prefix_tokens: is 101; at most prompt_tokens (100)"));
}

TEST(RunConfig, BlocksNeedTheNumberOfMultiprocessors) {
  const std::vector<std::string> sets{"engine.kernels.split_attention={splits: 4, token_ns: 50}"};
  EXPECT_EQ(load_run("kimi-k2.5-8x-h200", sets).engine.kernels.split_attention->splits, 4);
  EXPECT_THAT(refusal_of([&] {
                load_run("kimi-k2.5-8x-h200", {sets[0], "machine.gpu.multiprocessors=0"});
              }),
              testing::HasSubstr("machine.gpu.multiprocessors"));
}

}  // namespace
}  // namespace specstep
