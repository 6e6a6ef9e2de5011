// The comm table: sizes, bandwidths as nccl-tests defines them, crossovers, and tables beside the model.
#include "comm/report/comm_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "comm/report/sizes.h"
#include "comm/test_fabrics.h"

namespace specstep::comm {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Sizes, AreReadAsWritten) {
  EXPECT_THAT(parse_sizes("14336,43008"), ElementsAre(14336, 43008));
  EXPECT_THAT(parse_sizes("1K:8K:x2"), ElementsAre(1024, 2048, 4096, 8192));
  EXPECT_THAT(parse_sizes("1K:4K"), ElementsAre(1024, 2048, 4096));
  EXPECT_THAT(parse_sizes("100:250:50"), ElementsAre(100, 150, 200, 250));
  EXPECT_THAT(parse_sizes("1M,1KiB:2KiB"), ElementsAre(1 << 20, 1024, 2048));
  EXPECT_THAT(parse_sizes("1K:4K:x1.5"), ElementsAre(1024, 1536, 2304, 3456));
  EXPECT_THAT(parse_sizes("1000:3000:x1.5"), ElementsAre(1000, 1488, 2240));  // 1500, 2250 in whole packs
  for (const char* wrong :
       {"", "x", "1K:", "4K:1K", "1K:4K:x1", "1K:4K:0", "0", "-5", "1.5", "1K:2K:3K:4K", "1:100000:1"})
    EXPECT_THAT(refusal_of([&] { parse_sizes(wrong); }), HasSubstr("--bytes")) << wrong;
}

CommTable table(const std::string& name, int ranks, const std::string& sizes, std::vector<std::string> ids = {}) {
  Pricer pricer(fabric(name));
  return comm_table(pricer, {{.ranks = ranks}, parse_sizes(sizes), std::move(ids)});
}

const CommRow& row(const CommTable& t, const std::string& id, std::int64_t bytes) {
  for (const CommRow& r : t.rows)
    if (r.backend == id && r.bytes == bytes) return r;
  throw Error("no such row");
}

TEST(CommTable, BandwidthsAreThoseOfNcclTests) {
  const CommTable t = table("switch_4p4_microchip", 8, "1M", {"nccl"});
  const CommRow& r = row(t, "nccl", 1 << 20);
  EXPECT_NEAR(r.algorithm_gb_s, 1048576 / r.seconds / 1e9, 1e-9);
  EXPECT_NEAR(r.bus_gb_s, r.algorithm_gb_s * 14 / 8, 1e-9);
  EXPECT_LT(r.low, r.seconds);
  EXPECT_GT(r.high, r.seconds);
}

TEST(CommTable, CountsBytesOverLinks) {
  const CommTable t = table("h200_nvswitch8", 8, "14336", {"push1", "nccl"});
  // One-shot: 56 messages, each over two links; the ring in LL: 14 S twice over two links.
  EXPECT_DOUBLE_EQ(row(t, "push1", 14336).link_bytes.at(LinkKind::nvlink), 56 * 2 * 14336.0);
  EXPECT_NEAR(row(t, "nccl", 14336).link_bytes.at(LinkKind::nvlink), 14 * 2 * 2 * 14336.0, 1e-6);
}

TEST(CommTable, HealthyOneShotLosesToNcclFromSomeSize) {
  const CommTable t = table("switch_4p4_microchip", 8, "1K:1M:x2", {"nccl", "pull1"});
  ASSERT_EQ(t.changes.size(), 1U);
  EXPECT_EQ(t.changes[0].below, "pull1");
  EXPECT_EQ(t.changes[0].above, "nccl");
  // Published for 8 GPUs on healthy switches: about 48 to 67 KB.
  EXPECT_GT(t.changes[0].at, 40e3);
  EXPECT_LT(t.changes[0].at, 80e3);
  EXPECT_LT(t.changes[0].low, t.changes[0].at);
  EXPECT_GT(t.changes[0].high, t.changes[0].at);
}

// Beside other backends the pair is still answered: on the collapse host one-shot is soon behind a captured NCCL.
TEST(CommTable, OneShotAgainstNcclAlone) {
  const CommTable t = table("asus_dual_turin_collapse", 8, "256:64K:x2");
  ASSERT_EQ(t.against.size(), 2U);
  for (const Crossover& x : t.against) {
    EXPECT_EQ(x.above, "nccl");
    EXPECT_GT(x.at, 256);
    EXPECT_LT(x.at, 4096);
  }
}

// The collapse host: NCCL at 43,008 B on 8 GPUs, one-shot on 4; islands and host broadcast are considered.
TEST(CommTable, CollapseHost) {
  const CommTable eight = table("asus_dual_turin_collapse", 8, "14336,43008");
  for (const char* id : {"nccl", "pull1", "island", "hostbc"}) EXPECT_GT(row(eight, id, 43008).seconds, 0);
  EXPECT_LT(row(eight, "nccl", 43008).seconds, row(eight, "pull1", 43008).seconds);
  EXPECT_LT(row(eight, "island", 43008).seconds, row(eight, "nccl", 43008).seconds);
  const CommTable four = table("asus_dual_turin_collapse", 4, "43008", {"nccl", "pull1"});
  EXPECT_LT(row(four, "pull1", 43008).seconds, row(four, "nccl", 43008).seconds);
}

TEST(CommTable, SaysWhereNcclsChoiceIsNotTheBest) {
  // Hops through host memory: NCCL takes them for PCI and stays with LL to 960 KB on 4 ranks, where Simple is better
  // from 560 KB on (12.6 + 4 * 1.6 + S / 9.3 against 42.6 + 4 * 1.6 + S / 18.7).
  const CommTable t = table("dual_root_direct", 4, "384K,896K", {"nccl"});
  EXPECT_THAT(t.notes, ElementsAre(HasSubstr("nccl takes ring LL at 896 KiB, where ring Simple would take")));
}

TEST(CommTable, RefusalsAreNotesUnlessAskedFor) {
  EXPECT_THAT(table("switch_4p4_microchip", 8, "14336").notes, Contains(HasSubstr("left out: nvls")));
  EXPECT_THAT(refusal_of([] { table("switch_4p4_microchip", 8, "14336", {"nvls"}); }), HasSubstr("multicast"));
}

TEST(CommTable, SizesThatABackendCannotServeAreLeftOutWithOneNote) {
  const CommTable t = table("switch_4p4_microchip", 8, "1000,1008,1M,1000", {"nccl", "push1"});
  EXPECT_EQ(t.rows.size(), 6U);
  EXPECT_GT(row(t, "push1", 1008).seconds, 0);
  EXPECT_THAT(t.notes, Contains(HasSubstr("left out at 2 of 4 sizes: push1: 1000 bytes")));
  EXPECT_EQ(std::count_if(t.notes.begin(), t.notes.end(), [](auto& n) { return n.find("push1") != n.npos; }), 1);
}

TEST(CommTable, WhereNoBackendServesEachSaysWhy) {
  const std::string message = refusal_of([] { table("switch_4p4_microchip", 16, "1M"); });
  EXPECT_THAT(message, HasSubstr("nccl: 16 ranks on a fabric of 8 GPUs"));
  EXPECT_THAT(message, HasSubstr("push1: 16 ranks on a fabric of 8 GPUs"));
}

TEST(CommTable, SaysWhenNcclIsPricedWithoutTheSwitchThatReduces) {
  EXPECT_THAT(table("h200_nvswitch8", 8, "64M", {"nccl"}).notes, Contains(HasSubstr("priced without NVLS")));
  EXPECT_THAT(table("switch_4p4_microchip", 8, "64M", {"nccl"}).notes, testing::Not(Contains(HasSubstr("NVLS"))));
}

TEST(CommTable, OneRankHasNothingToExchange) {
  const CommTable t = table("switch_4p4_microchip", 1, "1K:4K", {"nccl", "push1"});
  EXPECT_THAT(t.notes, ElementsAre("one rank: nothing to exchange"));
  EXPECT_TRUE(t.changes.empty());
  EXPECT_THAT(comm_text(t), HasSubstr("on 1 rank,"));
}

TEST(CommTable, MeasuredTablesSayHowTheyWereMeasured) {
  const auto known = measured_table(CsvTable::parse("bytes,us,mode,ranks\n8,1,eager,4\n16,2,eager,4\n", "t"), {});
  const CommTable t = measured_comm_table(known, {.ranks = 0}, 0.05);
  EXPECT_THAT(comm_text(t), HasSubstr("all_reduce on 4 ranks, launched eagerly"));
  EXPECT_GT(t.rows[0].bus_gb_s, 0);
  EXPECT_THAT(refusal_of([&] { measured_comm_table(known, {.ranks = 8}, 0.05); }), HasSubstr("t: ranks: is 4"));
  const auto unknown = measured_table(CsvTable::parse("bytes,us\n8,1\n", "t"), {});
  const CommTable u = measured_comm_table(unknown, {.ranks = 0}, 0.05);
  EXPECT_THAT(comm_text(u), HasSubstr("all_reduce, launch not given"));
  EXPECT_EQ(comm_json({u})["rows"][0]["mode"], "unknown");
  EXPECT_THAT(u.notes, Contains(HasSubstr("--ranks")));
}

TEST(CommTable, MeasuredTablesKeepTheirSamples) {
  const auto measured =
      measured_table(CsvTable::load(std::string(SPECSTEP_SOURCE_DIR) + "/comm/table/testdata/ar_8gpu_first.csv"), {});
  const CommTable t = measured_comm_table(measured, {.ranks = 8}, 0.05);
  EXPECT_EQ(row(t, "nccl", 4096).provenance, Provenance::measured);
  ASSERT_EQ(t.changes.size(), 1U);
  EXPECT_EQ(t.changes[0].above, "nccl");
}

TEST(CommForms, TextCsvAndJsonAgree) {
  const CommTable t = table("switch_4p4_microchip", 8, "14336,43008", {"nccl", "push1"});
  EXPECT_THAT(comm_text(t), HasSubstr("14,336"));
  EXPECT_THAT(comm_csv({t}), HasSubstr("nccl,8,14336,graph,"));
  const nlohmann::ordered_json json = comm_json({t});
  EXPECT_EQ(json["schema"], "specstep.comm/1");
  ASSERT_EQ(json["rows"].size(), 4U);
  EXPECT_EQ(json["rows"][0]["backend"], "nccl");
  EXPECT_DOUBLE_EQ(json["rows"][0]["seconds"], row(t, "nccl", 14336).seconds);
  for (const char* key : {"collective", "dtype", "ranks", "bytes", "mode", "low", "high", "bottleneck",
                          "algorithm_gb_s", "bus_gb_s", "provenance"})
    EXPECT_TRUE(json["rows"][0].contains(key)) << key;
}

}  // namespace
}  // namespace specstep::comm
