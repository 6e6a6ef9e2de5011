// Measured collectives: between their sizes, and left alone outside them.
#include "sim/collective_table.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/base/config_io.h"
#include "model/base/units.h"
#include "model/build_plan.h"
#include "sim/executor.h"
#include "sim/test_configs.h"

namespace specstep {
namespace {

CollectiveTable read(const std::string& text) { return read_config<CollectiveTable>(yaml::parse(text, "t.yaml")); }

const char* const table =
    "{source: s, ranks: 8, curves: [{backend: pull1, launch: both, points: [{bytes: 1000, us: 10}, {bytes: 4000, us: "
    "40}]}, {backend: nccl, launch: eager, points: [{bytes: 1000, us: 50}, {bytes: 4000, us: 50}]}]}";

comm::Call call(std::int64_t bytes, bool captured = true, int ranks = 8) {
  return {comm::Collective::all_reduce, ranks, bytes, DType::bf16, captured};
}

TEST(CollectiveTable, BetweenSizesTheLogarithmsAreStraight) {
  const CollectiveTable t = read(table);
  EXPECT_NEAR(*t.seconds("pull1", call(2000)), 20 * us, 1e-12);  // time proportional to bytes
  EXPECT_NEAR(*t.seconds("pull1", call(4000)), 40 * us, 1e-12);
  EXPECT_NEAR(*t.seconds("nccl", call(3000, false)), 50 * us, 1e-12);
}

TEST(CollectiveTable, WhatWasNotMeasuredIsLeftToTheFabric) {
  const CollectiveTable t = read(table);
  EXPECT_FALSE(t.seconds("pull1", call(999)));
  EXPECT_FALSE(t.seconds("pull1", call(4001)));
  EXPECT_FALSE(t.seconds("pull1", call(2000, true, 4)));
  EXPECT_FALSE(t.seconds("nccl", call(2000)));  // captured
  EXPECT_FALSE(t.seconds("rsag", call(2000)));
  comm::Call gather = call(2000);
  gather.kind = comm::Collective::all_gather;
  EXPECT_FALSE(t.seconds("pull1", gather));
  CollectiveTable above = t;
  above.above_kib = 2;
  EXPECT_FALSE(above.seconds("pull1", call(2048)));
  EXPECT_TRUE(above.seconds("pull1", call(2049)));
}

TEST(CollectiveTable, FaultsHavePlaces) {
  const auto refusal = [](const std::string& text) { return refusal_of([&] { read(text); }); };
  EXPECT_EQ(refusal("{source: s, ranks: 8, curves: [{backend: ncl, points: [{bytes: 1, us: 1}, {bytes: 2, us: 1}]}]}")
                .substr(0, 88),
            "t.yaml:1:42: curves[0].backend: unknown backend 'ncl', did you mean 'nccl'?; nccl, nccl_");
  EXPECT_NE(refusal("{source: s, ranks: 8, curves: [{backend: nccl, points: [{bytes: 2, us: 1}, {bytes: 2, us: 1}]}]}")
                .find("curves[0].points[1].bytes: does not grow"),
            std::string::npos);
  EXPECT_NE(refusal("{source: s, ranks: 8, curves: [{backend: nccl, points: [{bytes: 1, us: 1}, {bytes: 2, us: 1}]}, "
                    "{backend: nccl, launch: both, points: [{bytes: 1, us: 1}, {bytes: 2, us: 1}]}]}")
                .find("curves[1]: measures nccl again"),
            std::string::npos);
}

// 122 in-layer allreduces and one for the embedding, each 100 us apart from what the fabric gives.
TEST(CollectiveTable, AMachineWithMeasurementsIsPricedByThem) {
  const std::string flat =
      "machine.collectives={source: s, ranks: 8, curves: [{backend: nccl, points: [{bytes: 1, us: 100}, {bytes: "
      "1000000, us: 100}]}]}";
  const auto priced = [](const RunConfig& run) {
    const auto executor = make_executor(run);
    return executor->prepare(build_plan(run.stack, run.parallel, {PassKind::decode, 1, 1, 30}), Launch::captured)
        ->run(true);
  };
  const Timeline with = priced(load_run("seed/baseline-graph128", {flat}));
  const Timeline without = priced(load_run("seed/baseline-graph128"));
  const auto allreduce = static_cast<std::size_t>(Part::allreduce);
  EXPECT_NEAR(with.parts[allreduce], 123 * 100 * us, 1e-9);
  EXPECT_NEAR(with.seconds - with.parts[allreduce], without.seconds - without.parts[allreduce], 1e-9);
}

}  // namespace
}  // namespace specstep
