// Measured tables from public reports: crossovers, outliers, repeated sizes.
#include "comm/table/measured.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/base/units.h"

namespace specstep::comm {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

MeasuredTable load(const std::string& name, const TableShape& shape = {}) {
  return measured_table(CsvTable::load(std::string(SPECSTEP_SOURCE_DIR) + "/comm/table/testdata/" + name + ".csv"),
                        shape);
}

std::vector<Curve> curves(const MeasuredTable& table) {
  std::vector<Curve> plain;
  for (const MeasuredCurve& c : table.curves) plain.push_back(without_outliers(c));
  return plain;
}

std::vector<std::int64_t> outliers(const std::string& name, std::int64_t value_bytes = 1) {
  std::vector<std::int64_t> found;
  const MeasuredTable table = load(name, {.value_bytes = value_bytes});
  for (const MeasuredPoint& p : table.curves[0].points)
    if (p.outlier) found.push_back(p.bytes);
  return found;
}

// The report's own reading: one-shot wins to between 4 and 16 KiB on 8 GPUs, to about a megabyte on 4 of the same host.
TEST(Crossover, OfTheCollapseHost) {
  for (const char* name : {"ar_8gpu_first", "ar_8gpu_idle"}) {
    const auto found = crossovers(curves(load(name)), 0.05);
    ASSERT_EQ(found.size(), 1U) << name;
    EXPECT_EQ(found[0].below, "custom");
    EXPECT_EQ(found[0].above, "nccl");
    EXPECT_GT(found[0].at, 4 * kib);
    EXPECT_LT(found[0].at, 16 * kib);
    EXPECT_LE(found[0].low, found[0].at);
    EXPECT_GE(found[0].high, found[0].at);
  }
  for (const char* name : {"ar_4gpu_first", "ar_4gpu_idle"}) {
    const auto found = crossovers(curves(load(name)), 0.05);
    ASSERT_EQ(found.size(), 1U) << name;
    EXPECT_GT(found[0].at, 512 * kib);
    EXPECT_LT(found[0].at, 2 * mib);
  }
}

TEST(Crossover, BandGrowsWithTheUncertainty) {
  const auto few = curves(load("ar_8gpu_first"));
  const Crossover sharp = crossovers(few, 0.01).at(0);
  const Crossover vague = crossovers(few, 0.2).at(0);
  EXPECT_LT(vague.low, sharp.low);
  EXPECT_GT(vague.high, sharp.high);
  EXPECT_NEAR(sharp.at, vague.at, 1);
}

// Two straight lines: 10 + x and 2 x cross at 10.
TEST(Crossover, OfStraightLines) {
  Curve a{"a", {}};
  Curve b{"b", {}};
  for (std::int64_t x = 1; x <= 1000; ++x) {
    a.points.emplace_back(x, 10 + static_cast<double>(x));
    b.points.emplace_back(x, 2 * static_cast<double>(x));
  }
  const auto found = crossovers({a, b}, 0.1);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_NEAR(found[0].at, 10, 0.5);
  EXPECT_NEAR(found[0].low, 10 / (2 * 1.1 / 0.9 - 1), 0.2);   // 2 x 1.1/0.9 = 10 + x
  EXPECT_NEAR(found[0].high, 11 / 0.9 / (2 - 1.1 / 0.9), 1);  // 2 x = (10 + x) 1.1/0.9
}

// Three crossings; at the sizes between them the better one is twice as fast.
TEST(Crossover, BandsEndWhereEitherIsSurelyBetter) {
  const Curve a{"a", {{1, 1e-6}, {10, 2e-6}, {100, 4e-6}, {1000, 6e-6}, {10000, 24e-6}}};
  const Curve b{"b", {{1, 2e-6}, {10, 2e-6}, {100, 2e-6}, {1000, 12e-6}, {10000, 12e-6}}};
  const auto found = crossovers({a, b}, 0.1);
  ASSERT_EQ(found.size(), 3U);
  for (const Crossover& x : found) {
    EXPECT_GT(x.low, x.at / 10);
    EXPECT_LT(x.high, x.at * 10);
  }
  EXPECT_LT(found[0].high, 100);  // at 100 it is 4 against 2
  EXPECT_GT(found[1].low, 100);
  EXPECT_LT(found[1].high, 1000);  // at 1000 it is 6 against 12
}

TEST(Crossover, CurvesMayHaveTheirOwnUncertainty) {
  auto few = curves(load("ar_8gpu_first"));
  const Crossover sharp = crossovers(few, 0.01).at(0);
  for (Curve& curve : few) curve.uncertainty = 0.2;
  EXPECT_LT(crossovers(few, 0.01).at(0).low, sharp.low);
}

TEST(Setting, IsReadFromColumnsThatSayTheSameInEveryRow) {
  const MeasuredTable t = measured_table(CsvTable::parse("bytes,us,mode,ranks,dtype\n8,1,eager,4,bf16\n", "t.csv"), {});
  EXPECT_EQ(t.captured, false);
  EXPECT_EQ(t.ranks, 4);
  EXPECT_EQ(t.dtype, DType::bf16);
}

TEST(Recommendation, At43008BytesNcclOnEightAndOneShotOnFour) {
  EXPECT_EQ(best_at(curves(load("ar_8gpu_first")), 43008), "nccl");
  EXPECT_EQ(best_at(curves(load("ar_8gpu_idle")), 43008), "nccl");
  EXPECT_EQ(best_at(curves(load("ar_4gpu_first")), 43008), "custom");
  const MeasuredTable table = load("ar_8gpu_first");
  EXPECT_NEAR(*interpolate(table.curves[0], 43008) * 1e6, 387, 10);
  EXPECT_NEAR(*interpolate(table.curves[1], 43008) * 1e6, 76, 2);
}

TEST(Rows, NeedTheHiddenSize) {
  EXPECT_THROW(load("b12x_m7168"), InputError);
  const MeasuredTable table = load("b12x_m7168", {.hidden = 7168});
  EXPECT_EQ(table.curves[0].points[0].bytes, 14336);
  const auto plain = curves(table);
  EXPECT_EQ(best_at(plain, 14336), "hier");
  for (int rows : {4, 8, 12}) EXPECT_EQ(best_at(plain, rows * 14336), "island");
  bool found = false;
  for (const Crossover& x : crossovers({plain[0], plain[1]}, 0.02)) {
    found = true;
    EXPECT_GT(x.at, 4 * 14336);
    EXPECT_LT(x.at, 8 * 14336);
  }
  EXPECT_TRUE(found);
}

TEST(Outliers, AreFlaggedAndNotUsed) {
  EXPECT_THAT(outliers("h100x8"), ElementsAre(512));
  EXPECT_THAT(outliers("h100x2"), ElementsAre(8192, 32768));
  EXPECT_THAT(outliers("b200x8_eager"), ElementsAre(131072));
  EXPECT_THAT(outliers("rtx_int8x4"), ElementsAre(32768));
  EXPECT_THAT(outliers("v100"), IsEmpty());
  EXPECT_THAT(outliers("ar_8gpu_first"), IsEmpty());
  const MeasuredTable table = load("h100x8", {.value_bytes = 1});
  const double at_700 = *interpolate(table.curves[0], 700) * 1e6;
  EXPECT_GT(at_700, 3);
  EXPECT_LT(at_700, 5);
  EXPECT_THAT(table.notes.at(0), HasSubstr("out of line"));
}

TEST(RepeatedSizes, AreMergedByMedianWithTheirSpread) {
  const MeasuredTable table = load("b200_repeat", {.value_bytes = 1});
  const auto& points = table.curves[0].points;
  ASSERT_EQ(points.size(), 3U);
  EXPECT_DOUBLE_EQ(points[0].seconds * 1e6, 25.89);
  EXPECT_DOUBLE_EQ(points[1].seconds * 1e6, 25.21);
  EXPECT_DOUBLE_EQ(points[2].seconds * 1e6, 26.47);
  EXPECT_EQ(points[0].samples, 3);
  EXPECT_NEAR(points[0].spread(), (26.63 - 24.94) / 25.89, 1e-9);
  EXPECT_THAT(table.notes.at(0), HasSubstr("several times"));
}

TEST(Notes, TimesThatFallWithSizeAreAColdStart) {
  // NVIDIA/nccl issue 1984: 0.10 MB 227.7 us, 1.25 MB 115.3 us, largest sample 5.4 ms.
  const auto table =
      measured_table(CsvTable::load(std::string(SPECSTEP_SOURCE_DIR) + "/comm/import/testdata/coldstart.csv"), {});
  EXPECT_THAT(table.notes, testing::Contains(HasSubstr("avg: times fall with size")));
  EXPECT_EQ(table.curves.at(1).points.size(), 4U);  // blank cells are absent
}

// NCCL with and without a graph file (local-inference-lab/rtx6kpro optimization/nccl-tuning.md): 122 allreduces of 32
// KiB differ by 2.7 ms, which is what a what-if of the table must give and no more.
TEST(WhatIf, TheGraphFileSavesTwoPointSevenMilliseconds) {
  const auto at_32k = [](const char* name) {
    const auto table =
        measured_table(CsvTable::load(std::string(SPECSTEP_SOURCE_DIR) + "/comm/import/testdata/" + name + ".csv"), {});
    return *interpolate(table.curves.at(0), 32768);
  };
  EXPECT_NEAR(122 * (at_32k("nccl_noxml") - at_32k("nccl_xml")) * 1e3, 2.68, 0.01);
}

std::string refusal(const std::string& text) {
  try {
    measured_table(CsvTable::parse(text, "t.csv"), {});
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Refusals, NameTheLine) {
  EXPECT_THAT(refusal(""), HasSubstr("t.csv:1:1: empty"));
  EXPECT_THAT(refusal("bytes,us\n"), HasSubstr("no rows"));
  EXPECT_THAT(refusal("bytes,us\n8,x\n"), HasSubstr("t.csv:2:1: us: 'x' is not a number"));
  EXPECT_THAT(refusal("bytes,us\n8,1\n9\n"), HasSubstr("t.csv:3:1: 1 cells"));
  EXPECT_THAT(refusal("size,us\n8,1\n"), HasSubstr("no column of sizes"));
  EXPECT_THAT(refusal("bytes,time\n8,1\n"), HasSubstr("no column of times"));
  EXPECT_THAT(refusal("bytes,us\n0,1\n"), HasSubstr("above 0"));
  EXPECT_THAT(refusal("bytes,us\n8,-1\n"), HasSubstr("at least 0"));
  EXPECT_THAT(refusal("bytes,bytes\n8,1\n"), HasSubstr("column named twice"));
  EXPECT_THAT(refusal("bytes,us\n8,\"1\n"), HasSubstr("quote is not closed"));
  EXPECT_THAT(refusal("bytes,us,mode\n8,1,graph\n9,1,eager\n"), HasSubstr("t.csv:3:1: mode: 'eager', but 'graph'"));
  EXPECT_THAT(refusal("bytes,us,mode\n8,1,fast\n"), HasSubstr("graph or eager"));
  EXPECT_THAT(refusal("bytes,us,ranks\n8,1,0\n"), HasSubstr("1 to 1024"));
  EXPECT_THAT(refusal("bytes,us,dtype\n8,1,bf17\n"), HasSubstr("dtype: 'bf17'"));
  EXPECT_THAT(refusal("a\n1,2\n1,2\n1,2\n1,2\n1,2\n1,2\n1,2\n"), HasSubstr("2 more lines like these"));
}

}  // namespace
}  // namespace specstep::comm
