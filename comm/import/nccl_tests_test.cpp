// The output of nccl-tests as users pasted it, and what is left out of it.
#include "comm/import/nccl_tests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/test_fabrics.h"

namespace specstep::comm {
namespace {

using testing::HasSubstr;

std::string data(const std::string& name) {
  return yaml::read_text(std::string(SPECSTEP_SOURCE_DIR) + "/comm/import/testdata/" + name);
}

NcclTestTable tests(const std::string& name) { return parse_nccl_tests(data(name), name); }

TEST(NcclTests, CleanTable) {
  const NcclTestTable t = tests("nccl_clean.txt");
  EXPECT_EQ(t.rows.size(), 10U);
  EXPECT_DOUBLE_EQ(t.rows[0].out_of_place.seconds, 17.08e-6);
  EXPECT_DOUBLE_EQ(t.rows[9].in_place.seconds, 22.61e-6);
  EXPECT_EQ(t.ranks, std::nullopt);  // 0.18 and 0.31 GB/s do not tell
  EXPECT_EQ(t.curve().points.size(), 10U);
}

TEST(NcclTests, RanksFollowFromTheRatio) { EXPECT_EQ(tests("nccl_ratio175.txt").ranks, 8); }

TEST(NcclTests, LogLinesBetweenRowsAreIgnored) {
  const NcclTestTable t = tests("nccl_mixed.txt");
  ASSERT_EQ(t.rows.size(), 4U);
  EXPECT_EQ(t.rows[0].bytes, 128);
  EXPECT_DOUBLE_EQ(t.rows[0].out_of_place.seconds, 61.58e-6);
}

TEST(NcclTests, OldColumnsAndDisagreement) {
  const NcclTestTable t = tests("nccl_old.txt");
  ASSERT_EQ(t.rows.size(), 5U);
  EXPECT_TRUE(t.rows[4].disagree);
  EXPECT_TRUE(t.rows[3].disagree);
  EXPECT_FALSE(t.rows[0].disagree);
  EXPECT_DOUBLE_EQ(t.rows[4].out_of_place.seconds, 427.0e-6);
}

TEST(NcclTests, OtherCollectivesAndFailedRunsAreRefused) {
  EXPECT_THAT(refusal_of([] { tests("nccl_alltoall1.txt"); }), HasSubstr("bandwidth is 0.00: not an allreduce"));
  EXPECT_THAT(refusal_of([] { tests("nccl_allgather.txt"); }), HasSubstr("bandwidth is 0.87: not an allreduce"));
  EXPECT_THAT(refusal_of([] { tests("nccl_failed.txt"); }), HasSubstr("the sums were wrong"));
  EXPECT_THAT(refusal_of([] { parse_nccl_tests("nothing\n", "n"); }), HasSubstr("no rows"));
}

const std::string test_head =
    "# nThread 1 nGpus 1 minBytes 1024 maxBytes 4096 step: 2(factor) validation: 1 graph: 1\n"
    "#  Rank  0 Group  0 Pid 7 on host device 0\n#  Rank  1 Group  0 Pid 7 on host device 1\n";
const std::string good_row = "1024 512 half sum -1 10.5 0.10 0.10 0 10.6 0.10 0.10 0\n";
const std::string test_end = "# Avg bus bandwidth    : 0.1\n";

TEST(NcclTests, WhatTheLogTellsStandsInTheTable) {
  const NcclTestTable t = parse_nccl_tests(test_head + good_row + test_end, "n");
  EXPECT_TRUE(t.left_out.empty());
  EXPECT_EQ(t.csv(), "bytes,nccl_us,mode,ranks,dtype\n1024,10.5,graph,2,f16\n");
  const MeasuredTable read = measured_table(CsvTable::parse(t.csv(), "t.csv"), {});
  EXPECT_EQ(read.captured, true);
  EXPECT_EQ(read.ranks, 2);
  EXPECT_EQ(read.dtype, DType::f16);
}

TEST(NcclTests, WrongCutAndBrokenRowsAreNamedAndLeftOut) {
  const auto left_out = [](const std::string& middle, const std::string& end = test_end) {
    const NcclTestTable t = parse_nccl_tests(test_head + good_row + middle + end, "n");
    EXPECT_EQ(t.rows.size(), 1U);
    return t.left_out.size() == 1 ? t.left_out[0].text() : "nothing";
  };
  EXPECT_EQ(left_out(""), "nothing");
  EXPECT_THAT(left_out("2048 1024 half sum -1 10.5 0.1 0.1 512 10.6 0.1 0.1 0\n"),
              HasSubstr("n:5:36: #wrong: 512 values were wrong"));
  EXPECT_THAT(left_out("2048 1024 half sum -1 -18.5 0.1 0.1 0 10.6 0.1 0.1 0\n"), HasSubstr("n:5:23: time: -18.5 us"));
  EXPECT_THAT(left_out("2048 1024 half sum -1 0.00 0.1 0.1 0 10.6 0.1 0.1 0\n"), HasSubstr("time: 0 us"));
  EXPECT_THAT(left_out("2048 1024 half sum -1 10.5\n"), HasSubstr("n:5:1: a row that is cut"));
  EXPECT_THAT(left_out("2048 1024 half host:1:2 [0] NCCL INFO Channel 00\n"), HasSubstr("a row that is cut or mixed"));
  EXPECT_THAT(left_out("host: Test NCCL failure common.cu:958 'unhandled cuda error'\n"),
              HasSubstr("n:5:7: 'Test NCCL failure common.cu:958"));
  EXPECT_THAT(left_out("", ""), HasSubstr("ends without its summary"));
  EXPECT_THAT(refusal_of([] {
                parse_nccl_tests(test_head + "2048 1024 half sum -1 10.5 0.1 0.1 512 10.6 0.1 0.1 0\n" + test_end, "n");
              }),
              HasSubstr("512 values were wrong"));
}

}  // namespace
}  // namespace specstep::comm
